"""Inputs of live traffic, oldest first."""

from __future__ import annotations

from typing import Any

from ratchet.curate.recorded_values import Incomplete, input_of
from ratchet.store import Store
from ratchet.types.trace import TraceFilter

DEFAULT_INPUTS_READ = 2000
"""How many of the newest inputs are read."""

MAX_TRACES = 20_000
"""How many traces are searched for them."""


def live_inputs(
    store: Store, agent: str | None = None, limit: int = DEFAULT_INPUTS_READ
) -> list[Any]:
    """Read the inputs of the newest live traces; arguments as for `inputs_of_traces`."""
    return [value for _, value in inputs_of_traces(store, agent, limit)]


def inputs_of_traces(
    store: Store, agent: str | None = None, limit: int = DEFAULT_INPUTS_READ
) -> list[tuple[str, Any]]:
    """Read ids and inputs of the newest live traces, oldest first.

    Traces without input, or with a part of it only, are left out.

    Args:
        store: The store.
        agent: Only this agent's; by default all but those of Ratchet's own model calls.
        limit: Number of inputs.
    """
    inputs: list[tuple[str, Any]] = []
    cursor: str | None = None
    searched = 0
    while len(inputs) < limit and searched < MAX_TRACES:
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
                inputs.append((recording.trace.trace_id, value))
        if cursor is None:
            break
    return inputs[:limit][::-1]
