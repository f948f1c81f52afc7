"""What a watch asks the old model after a move, on the live inputs that the new one answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ratchet.autopilot.cycle.parts import StageMeasurement
from ratchet.prove import ShadowPair
from ratchet.types import SPOILED, Candidate, Model, Rollout, StageDecision, StageVerdict
from ratchet.types.wording import counted

GONE_AFTER = 10
"""Failures in a row after which the old model is no longer asked."""


class OldModelProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the comparison with the old model has come: plain data, stored with the cycle."""

    stage: dict[str, Any] = {}
    """State of the test, its cursor, and the pairs that it saw."""
    failed: int = 0
    """How many of the latest inputs in a row the old model failed on."""
    sentence: str = ""
    """Where the comparison stands."""
    ended: bool = False

    def after(
        self,
        measured: StageMeasurement,
        pairs: Sequence[ShadowPair],
        rollouts: dict[str, Rollout],
    ) -> OldModelProgress:
        """Where the comparison stands after a measurement.

        It ends with a verdict, or once the old model has failed often enough in a row.

        Args:
            measured: The measurement.
            pairs: What it read.
            rollouts: The old model's rollouts of these pairs, by id.
        """
        decision, failed = measured.decision, self.failed
        for pair in pairs:
            failed = failed + 1 if _error(pair, rollouts) is not None else 0
        sentence, ended = compared(decision), decision.verdict is not None
        if failed >= GONE_AFTER and not ended:
            error = _error(pairs[-1], rollouts)
            sentence = f"The old model no longer answers, so it is compared no further: {error}"
            ended = True
        return OldModelProgress(
            stage=measured.progress, failed=failed, sentence=sentence, ended=ended
        )


def old_model(baseline: Candidate, candidate: Candidate, *, merged: bool) -> Candidate | None:
    """The baseline, as it can be asked after the release; None if no model was changed.

    Args:
        baseline: What was released before.
        candidate: The release.
        merged: Whether it was merged. Then the agent's own calls name the new model, and the old
            one has to take its place there.
    """
    moved = {
        name: (old, new)
        for name, old in baseline.resources.items()
        if isinstance(old, Model)
        and isinstance(new := candidate.resources.get(name), Model)
        and (old.model, old.base_url, old.first) != (new.model, new.base_url, new.first)
    }
    if not moved:
        return None
    in_calls = {
        name: msgspec.structs.replace(old, in_calls=new.model)
        for name, (old, new) in moved.items()
        if merged and old.in_calls
    }
    return baseline.derive(in_calls, algorithm="watch") if in_calls else baseline


def seen_from_the_release(
    pairs: Sequence[ShadowPair], rollouts: dict[str, Rollout]
) -> list[ShadowPair]:
    """Mirrored pairs with the old model's score as the baseline's and the release's as candidate's.

    Where the old model failed, it has no score: that says nothing about the release.
    """
    return [
        msgspec.structs.replace(
            pair,
            baseline=pair.candidate if _error(pair, rollouts) is None else None,
            candidate=pair.baseline,
        )
        for pair in pairs
    ]


def compared(decision: StageDecision) -> str:
    """What the comparison shows, as a sentence."""
    if not decision.baseline_count:
        return "The old model gets the same live inputs; no pair has two scores yet."
    outcomes: dict[StageVerdict | None, str] = {
        "pass": "the new one is proved no worse by the margin",
        "harm": "the new one is proved worse",
        None: "whether the new one is worse is not decided yet",
    }
    return (
        f"On {counted(decision.baseline_count, 'live input')} the old model scores"
        f" {decision.baseline:.3f} and the new one {decision.candidate:.3f}:"
        f" {outcomes.get(decision.verdict, 'whether the new one is worse stays undecided')}."
    )


def as_alarm(decision: StageDecision) -> StageDecision:
    """A proof that the release is worse than the old model, as the alarm of its watch."""
    return msgspec.structs.replace(
        decision,
        stage="watch",
        verdict="alarm",
        alpha=1.0 / decision.harm_needed,
        e_value=decision.harm_e_value,
        needed=decision.harm_needed,
        harm_e_value=1.0,
        harm_needed=0.0,
        interval=None,
        sentence=compared(decision),
    )


def _error(pair: ShadowPair, rollouts: dict[str, Rollout]) -> str | None:
    """Why the old model failed on an input; None if it did not."""
    rollout = rollouts.get(pair.rollout_id)
    return rollout.error if rollout is not None and rollout.status in SPOILED else None
