"""What a failed rollout says: the agent's error, and the model call that failed in it."""

from __future__ import annotations

from ratchet.store import Store
from ratchet.types import Rollout


def failure_of(rollout: Rollout, store: Store) -> str:
    """The rollout's error; with the failed model call's, which many programs do not print."""
    messages = (
        span.message
        for span in store.spans.of(rollout.id)
        if span.status == "error" and "gen_ai.request.model" in span.attributes
    )
    call = next((message for message in messages if message and message not in rollout.error), "")
    return f"{rollout.error} A model call failed: {call}" if call else rollout.error
