"""Notes that a candidate's model needs the gateway to translate the agent's calls."""

from __future__ import annotations

from ratchet.store import Store
from ratchet.types import Run
from ratchet.types.trace import LEFT_OUT, TRANSLATED

MAX_ROLLOUTS_EXAMINED = 20
"""Maximum number of a candidate's newest rollouts examined."""


def translation_note(store: Store, run: Run) -> str:
    """What the deployment needs after the merge; empty if no call was translated.

    Args:
        store: Store of the run's rollouts.
        run: A run that has selected a candidate.
    """
    left_out = _left_out(store, run.best_id)
    if left_out is None or _left_out(store, run.baseline_id) is not None:
        return ""
    lost = f" Left out of them: {', '.join(sorted(left_out))}." if left_out else ""
    return (
        "The new model belongs to another provider, whose API the agent does not speak: the "
        f"gateway translated its calls.{lost} Merge this only if the agent's calls go through the "
        "gateway, or also give the agent that provider's client."
    )


def _left_out(store: Store, candidate_id: str) -> set[str] | None:
    """What was left out of a candidate's calls; None if none was translated."""
    newest, _ = store.rollouts.list(candidate_id=candidate_id, limit=MAX_ROLLOUTS_EXAMINED)
    by_rollout = store.spans.of_newest_attempts([rollout.id for rollout in newest])
    translated = [
        span.attributes
        for spans in by_rollout.values()
        for span in spans
        if TRANSLATED in span.attributes
    ]
    if not translated:
        return None
    return {name for attributes in translated for name in attributes.get(LEFT_OUT, ())}
