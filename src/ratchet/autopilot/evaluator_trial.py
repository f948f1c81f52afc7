"""Scores one stored output with one evaluator to look at the result: nothing is stored."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ratchet.autopilot.recorded_rollout import (
    Unusable,
    recorded_rollout,
    recording_of,
    spans_of_trace,
)
from ratchet.evaluate import Evaluator, Scorer
from ratchet.store import Store
from ratchet.types import FINAL, InputError, NotFound, Rollout, Score


def models_asked(evaluator: Evaluator) -> tuple[str, ...]:
    """Names of the models whose answers an evaluator's verdicts rest on; they may cost money."""
    models: Sequence[str] = getattr(evaluator, "models", ())
    return tuple(models)


def trial_subject(store: Store, identity: str) -> tuple[Rollout, bool]:
    """What is scored: a rollout, or a live trace as one; and whether it is a live trace.

    Args:
        store: The store.
        identity: The id of a rollout or a trace, or the start of one.

    Raises:
        NotFound: There is neither.
        InputError: Several begin so, it has not ended, or its answer was not recorded.
    """
    rollouts = store.rollouts.find(identity)
    traces = [] if rollouts else store.traces.find(identity, 2)
    if len(rollouts) > 1 or len(traces) > 1:
        raise InputError(f"Several ids begin with {identity!r}; give more characters.")
    if rollouts:
        if rollouts[0].status not in FINAL:
            raise InputError(
                f"The rollout {rollouts[0].id} has not ended: it is {rollouts[0].status}."
            )
        return rollouts[0], False
    skeleton = store.traces.skeleton(traces[0], limit=1) if traces else None
    if skeleton is None:
        raise NotFound(f"There is no rollout or trace {identity!r}.")
    if skeleton.trace.rollout_id:
        return trial_subject(store, skeleton.trace.rollout_id)
    recording = recording_of(store, skeleton.trace)
    try:
        if recording is None:
            raise Unusable("its spans have been deleted since")
        return recorded_rollout(recording), True
    except Unusable as error:
        raise InputError(f"The trace {skeleton.trace.trace_id} has no score: {error}.") from None


async def try_evaluator(store: Store, evaluator: Evaluator, identity: str) -> tuple[Rollout, Score]:
    """What an evaluator says about one stored output.

    Args:
        store: The store; a judge may keep its model's answers there, no score is stored.
        evaluator: The evaluator.
        identity: The id of a rollout or a trace, or the start of one.

    Raises:
        NotFound: There is no such output.
        InputError: It cannot be scored.
    """
    rollout, live = trial_subject(store, identity)
    spans_of = functools.partial(spans_of_trace, store) if live else None
    score = await Scorer(store, [evaluator]).rate(rollout, evaluator.name, spans_of)
    assert score is not None
    return rollout, score
