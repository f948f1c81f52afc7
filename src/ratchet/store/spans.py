"""Spans: the steps of rollouts, and steps that belong to none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from ratchet.store.engine import Database
from ratchet.store.keys import NO_ROLLOUT, keys_of
from ratchet.store.tables import rollouts, spans
from ratchet.types import Span, SpanEvent


class Spans:
    """Spans by rollout; the same span of the same attempt is stored once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.insert_new(spans, "rollout_seq", "fence", "trace_id", "span_id")

    def add(self, rollout_id: str | None, fence: int, items: Sequence[Span]) -> None:
        """Store spans; one that is stored already is left alone.

        Args:
            rollout_id: The rollout, or None when they belong to none.
            fence: Fencing token of the attempt they come from, 0 when they belong to none.
            items: The spans.

        Raises:
            InputError: The rollout is not in the store.
        """

        def work(connection: Connection) -> None:
            key = keys_of(connection, [rollout_id])[rollout_id] if rollout_id else NO_ROLLOUT
            self.add_all(connection, ((key, fence, span) for span in items))

        self._database.write(work)

    def add_all(self, connection: Connection, items: Iterable[tuple[int, int, Span]]) -> None:
        """Store spans by their rollouts' keys and fences in a transaction that is open."""
        rows: list[dict[str, Any]] = [
            {
                "rollout_seq": rollout_seq,
                "fence": fence,
                "trace_id": span.trace_id,
                "span_id": span.span_id,
                "parent_id": span.parent_id,
                "name": span.name,
                "start_ns": span.start_ns,
                "end_ns": span.end_ns,
                "status": span.status,
                "message": span.message,
                "attributes": span.attributes,
                "events": span.events,
            }
            for rollout_seq, fence, span in items
        ]
        if rows:
            connection.execute(self._insert, rows)

    def of(self, rollout_id: str | None, fence: int | None = None) -> list[Span]:
        """Spans of a rollout in the order they started.

        Args:
            rollout_id: The rollout; None for the spans that belong to none.
            fence: Only those of this attempt; all attempts when left out.
        """
        key: Any = NO_ROLLOUT
        if rollout_id:
            key = select(rollouts.c.seq).where(rollouts.c.id == rollout_id).scalar_subquery()
        query = select(spans).where(spans.c.rollout_seq == key)
        if fence is not None:
            query = query.where(spans.c.fence == fence)
        query = query.order_by(spans.c.start_ns, spans.c.seq)
        return self._database.read(lambda c: [_span(row) for row in c.execute(query)])


def _span(row: Any) -> Span:
    return Span(
        trace_id=row.trace_id,
        span_id=row.span_id,
        parent_id=row.parent_id,
        name=row.name,
        start_ns=row.start_ns,
        end_ns=row.end_ns,
        status=row.status,
        message=row.message,
        attributes=row.attributes,
        events=tuple(msgspec.convert(event, SpanEvent) for event in row.events),
    )
