"""The live calls that a cycle's stages looked at, as the journal has them.

Each batch of observations is journaled before a test sees it, with where it ended; so is the number
of those that the test saw, once it has a verdict.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from ratchet.prove import ShadowPair
from ratchet.prove.live_metrics import SCORE, live_value
from ratchet.store import Store
from ratchet.types import LiveOutcome, LiveStage
from ratchet.types.stage import Observed

BEFORE = "watch/before"
"""Key of the outcomes by which a watch knows what to expect."""


class ObservationBatch(msgspec.Struct, frozen=True):
    """Observations that were read at once."""

    observations: list[Any]
    cursor: str | None
    """Where the next reading begins."""


class StageCall(msgspec.Struct, frozen=True, kw_only=True):
    """A live call that a stage looked at."""

    stage: LiveStage
    part: Literal["pair", "baseline", "candidate", "before"]
    """pair: it was mirrored to the candidate. before: it came before a watch, which expects
    outcomes like it."""
    trace_id: str
    rollout_id: str = ""
    """Of a pair: the candidate's rollout."""
    baseline: float | None = None
    """Score of the live answer, unless the candidate gave it."""
    candidate: float | None = None
    """Score of the candidate's answer."""
    error: bool = False
    latency_s: float | None = None
    cost_usd: float | None = None
    group: str = ""
    why: str = ""
    """Why there is no score."""
    blocked: bool = False
    """Whether the candidate was stopped at a side effect, or left what was recorded."""


def batch_key(stage: Observed, number: int) -> str:
    """Key of the batch that follows this many observations."""
    return f"{stage}/batch/{number:06}"


def taken_key(stage: Observed) -> str:
    """Key of the number of observations that the stage's test saw."""
    return f"{stage}/taken"


def observations_in(journal: dict[str, Any], stage: Observed) -> list[Any]:
    """What a stage's test saw, in order, as JSON values.

    Args:
        journal: Bodies of the cycle's entries by key, in order of writing.
        stage: The stage.
    """
    observations = [
        observation
        for key, body in journal.items()
        if key.startswith(f"{stage}/batch/")
        for observation in body["observations"]
    ]
    return observations[: journal.get(taken_key(stage))]


def stage_calls(store: Store, cycle_id: str) -> list[StageCall]:
    """The calls that the stages of a cycle looked at, in the order of the stages and of the calls.

    Args:
        store: The store.
        cycle_id: The cycle.
    """
    journal = dict(store.journal.read(cycle_id))
    calls = [
        _of_pair(msgspec.convert(observation, ShadowPair))
        for observation in observations_in(journal, "shadow")
    ]
    for stage in get_args(LiveStage)[1:]:
        for observation in observations_in(journal, stage):
            outcome = msgspec.convert(observation, LiveOutcome)
            calls.append(_of_outcome(stage, outcome, outcome.arm or "candidate"))
    for observation in journal.get(BEFORE, ()):
        calls.append(_of_outcome("watch", msgspec.convert(observation, LiveOutcome), "before"))
    return calls


def _of_pair(pair: ShadowPair) -> StageCall:
    return StageCall(
        stage="shadow",
        part="pair",
        trace_id=pair.trace_id,
        rollout_id=pair.rollout_id,
        baseline=pair.baseline,
        candidate=pair.candidate,
        group=pair.group,
        why=pair.blocked,
        blocked=bool(pair.blocked),
    )


def _of_outcome(
    stage: LiveStage, outcome: LiveOutcome, part: Literal["baseline", "candidate", "before"]
) -> StageCall:
    score = live_value(outcome, SCORE)
    return StageCall(
        stage=stage,
        part=part,
        trace_id=outcome.trace_id,
        baseline=None if part == "candidate" else score,
        candidate=score if part == "candidate" else None,
        error=outcome.error,
        latency_s=outcome.latency_s,
        cost_usd=outcome.cost_usd,
        group=outcome.group,
        why=outcome.reason,
    )
