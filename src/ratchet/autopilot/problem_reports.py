"""The cost of problems: their share of an agent's recent traffic, worst first."""

from __future__ import annotations

from ratchet.llm import price
from ratchet.store import Store
from ratchet.types import ProblemReport
from ratchet.types.cycle import DAY_S

DAYS = 14
"""Days in which problems are looked for and counted."""


def reports(
    store: Store,
    *,
    now: float,
    agent: str | None = None,
) -> tuple[list[ProblemReport], int]:
    """The cost of problems in the last DAYS days, worst first, and the number of traces examined.

    Args:
        store: The store.
        now: Unix seconds.
        agent: Only of this agent.
    """
    traces = trace_counts(store, now - DAYS * DAY_S)
    total = traces.get(agent, 0) if agent is not None else sum(traces.values())
    return store.problems.reports(store.problems.list(agent), traces, days=DAYS, now=now), total


def trace_counts(store: Store, since: float) -> dict[str, int]:
    """Number of traces since a time, by agent; imported trajectories count as traces.

    Args:
        store: The store.
        since: Unix seconds.
    """
    store.trace_index.complete(price)
    counts = store.trace_index.counts_since(int(since * 1e9))
    for agent, rollouts in store.recordings.imported_since(since).items():
        counts[agent] = counts.get(agent, 0) + rollouts
    return counts
