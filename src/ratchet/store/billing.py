"""Billing: recomputes the cost of rollouts from their spans when a model call is stored.

A rollout's spans arrive from its worker, from the gateway and by OTLP, in any order and partly as
duplicates. Costs are therefore not accumulated but derived from the stored spans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, bindparam, func, select, update

from ratchet.store.engine import chunks
from ratchet.store.keys import NO_ROLLOUT
from ratchet.store.span_rows import Row
from ratchet.store.tables import rollouts, spans
from ratchet.store.usage import SpanUsage, total_of
from ratchet.types import total_cost

_SPANS = select(
    spans.c.rollout_seq,
    spans.c.fence,
    spans.c.trace_id,
    spans.c.span_id,
    spans.c.parent_id,
    spans.c.usage,
).where(spans.c.rollout_seq.in_(bindparam("seqs", expanding=True)))

_SET = (
    update(rollouts)
    .where(rollouts.c.seq == bindparam("at"))
    .values(
        known_usd=func.coalesce(rollouts.c.reported_usd, 0.0) + bindparam("new_known_usd"),
        unpriced=bindparam("new_unpriced"),
    )
)


def billed_in(rows: Iterable[Row]) -> list[int]:
    """Return the rollouts that have a model call among these spans."""
    return sorted({row.rollout_seq for row in rows if row.usage} - {NO_ROLLOUT})


def count_costs(connection: Connection, seqs: Collection[int]) -> None:
    """Set the cost of rollouts: what their runners reported plus the model calls in their spans.

    In a transaction that holds their locks: without, two that store spans of one rollout would each
    miss the other's.
    """
    for chunk in chunks(list(seqs)):
        usages: dict[int, dict[int, list[SpanUsage]]] = {seq: {} for seq in chunk}
        for seq, fence, *usage in connection.execute(_SPANS, {"seqs": chunk}):
            usages[seq].setdefault(fence, []).append(SpanUsage(*usage))
        rows = []
        for seq, attempts in usages.items():
            cost = total_cost(total_of(attempt).cost for attempt in attempts.values())
            rows.append({"at": seq, "new_known_usd": cost.known_usd, "new_unpriced": cost.unpriced})
        connection.execute(_SET, rows)
