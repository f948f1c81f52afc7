"""Inputs of live traffic: what people asked the agent, oldest first."""

from __future__ import annotations

from typing import Any

from ratchet.curate.recorded_values import Incomplete, input_of
from ratchet.store import Store
from ratchet.types.trace import TraceFilter

LIMIT = 2000
"""Inputs read, the newest."""

MOST_TRACES = 20_000
"""Traces searched for them."""


def live_inputs(store: Store, agent: str | None = None, limit: int = LIMIT) -> list[Any]:
    """Read the inputs of the newest live traces.

    Traces without input, or with a part of it only, are left out.

    Args:
        store: The store.
        agent: Only this agent's; by default all but those of Ratchet's own model calls.
        limit: Number of inputs.
    """
    found: list[Any] = []
    cursor: str | None = None
    searched = 0
    while len(found) < limit and searched < MOST_TRACES:
        page, examined, cursor = store.recordings.page(
            TraceFilter(agent=agent, own_calls=agent is not None), cursor=cursor
        )
        searched += examined
        for recording in page:
            try:
                value = input_of(recording)
            except Incomplete:
                continue
            if value is not None:
                found.append(value)
        if cursor is None:
            break
    return found[:limit][::-1]
