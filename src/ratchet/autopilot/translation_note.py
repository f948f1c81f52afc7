"""Says that a candidate's model needs the gateway, which translates the agent's calls for it."""

from __future__ import annotations

from ratchet.store import Store
from ratchet.types import Run
from ratchet.types.trace import LEFT_OUT, TRANSLATED

LOOKED_AT = 20
"""Most rollouts of a candidate that are looked at, the newest ones."""


def translation_note(store: Store, run: Run) -> str:
    """What has to be true where the change is merged; empty if its calls are the agent's own.

    Args:
        store: Store of the run's rollouts.
        run: A run that has selected a candidate.
    """
    left_out = _left_out(store, run.best_id)
    if left_out is None or _left_out(store, run.baseline_id) is not None:
        return ""
    lost = f" Left out of them: {', '.join(sorted(left_out))}." if left_out else ""
    return (
        "The new model is another provider's, whose API the agent does not speak: the gateway"
        f" translated its calls.{lost} Merge this where the agent's calls go through the gateway,"
        " or give the agent that provider's client as well."
    )


def _left_out(store: Store, candidate_id: str) -> set[str] | None:
    """What was left out of a candidate's calls; None if none was translated."""
    newest, _ = store.rollouts.list(candidate_id=candidate_id, limit=LOOKED_AT)
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
