"""Repository of spans, of rollouts and of live traffic."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    Connection,
    TableClause,
    and_,
    column,
    delete,
    select,
    table,
    text,
    union_all,
)

from ratchet.store.billing import billed_in, count_costs
from ratchet.store.columns import clean
from ratchet.store.engine import PATIENCE_S, Database, chunks
from ratchet.store.keys import NO_ROLLOUT, hold, keys_of
from ratchet.store.partitions import DEFAULT_PARTITION, SpanPartitions
from ratchet.store.span_rows import Row, row_of, with_heads
from ratchet.store.tables import rollouts, spans
from ratchet.store.texts import spans_of, store_texts
from ratchet.store.trace_index import mark_stale
from ratchet.store.transitions import Transitions
from ratchet.store.usage import LATE_CALL
from ratchet.types import FINAL, InputError, Span, SpanRecord, Transition

UNKNOWN_ROLLOUT, UNKNOWN_ATTEMPT = "ratchet.rollout.id", "ratchet.attempt"
"""Attributes of a live span whose rollout is not in the store: rollout id and attempt."""

_WINDOW = 1_000
"""How many spans of an agent a search for old spans examines, beginning with those stored first."""

_SEARCH = 200_000
"""Maximum number of spans that one search for old spans examines."""

UNNAMED = "unknown"
"""Agent name of live spans that name none."""

_ROWS_PER_INSERT = 58
"""Rows per INSERT on SQLite. Its driver releases the GIL at each statement and may wait long to get
it back; and some builds of SQLite limit a statement to 999 values."""


class ReceivedSpans(NamedTuple):
    """What happened to received spans."""

    new: int
    refused: tuple[int, ...]
    """Positions of claimed spans whose attempt is not running."""
    late: int
    """Number of spans that the server recorded for rollouts that had ended."""


class Spans:
    """Spans by rollout; each span of an attempt is stored once.

    On Postgres, two live spans of the same ids are different when one started in another partition.
    """

    def __init__(
        self, database: Database, partitions: SpanPartitions, transitions: Transitions
    ) -> None:
        self._database = database
        self._partitions = partitions
        self._transitions = transitions
        # Directly to the driver: SQLAlchemy's processing of a row costs more than its INSERT.
        self._insert = _insert("?" if database.is_sqlite else "%s", 1)
        self._insert_together = _insert("?", _ROWS_PER_INSERT) if database.is_sqlite else None
        self._pruned_agent = ""

    def add(self, rollout_id: str | None, fence: int, items: Sequence[Span]) -> None:
        """Store spans; those already stored are skipped.

        Args:
            rollout_id: The rollout, or None for live traffic.
            fence: Fencing token of the attempt, 0 for live traffic.
            items: The spans.

        Raises:
            InputError: The rollout is unknown, or a span cannot be stored.
        """

        def work(connection: Connection) -> None:
            key = keys_of(connection, [rollout_id])[rollout_id] if rollout_id else NO_ROLLOUT
            hold(connection, [rollout_id] if rollout_id else [])
            agent = "" if rollout_id else UNNAMED
            rows = [row_of(key, fence, agent, span) for span in items]
            self._add_rows(connection, with_heads(rows))
            _mark_live(connection, rows)
            count_costs(connection, billed_in(rows))

        self._database.write(work)

    def add_all(self, connection: Connection, items: Iterable[tuple[int, int, Span]]) -> None:
        """Store spans by their rollouts' keys and fences, and update the rollouts' costs.

        In an open transaction that holds the rollouts' locks.
        """
        rows = [row_of(key, fence, "", span) for key, fence, span in items]
        self._add_rows(connection, with_heads(rows))
        count_costs(connection, billed_in(rows))

    def put(self, records: Sequence[SpanRecord], *, patience_s: float = PATIENCE_S) -> int:
        """Store imported spans: like `receive`, but none is late, even if its rollout has ended.

        Returns:
            Number of new spans.
        """
        return self._receive(records, patience_s, settles=False).new

    def receive(
        self, records: Sequence[SpanRecord], *, patience_s: float = PATIENCE_S
    ) -> ReceivedSpans:
        """Store spans of rollouts and of live agents in one transaction.

        Spans already stored are skipped. Claimed spans of an attempt that does not run are refused.
        Other spans of a rollout that has ended are late: they are stored, but its cost and its
        transitions are final. Those of an unknown rollout are stored as live traffic of their
        agent, with the rollout's id in an attribute, and without their transitions. The costs of
        all other rollouts are updated.

        Args:
            records: The spans and their owners.
            patience_s: Seconds to retry while the store is locked or unreachable.

        Raises:
            InputError: An id is too long, or a number too large.
        """
        return self._receive(records, patience_s, settles=True)

    def _receive(
        self, records: Sequence[SpanRecord], patience_s: float, *, settles: bool
    ) -> ReceivedSpans:
        """Like `receive`; spans of rollouts that have ended are late if `settles`."""
        if not records:
            return ReceivedSpans(0, (), 0)

        def work(connection: Connection) -> ReceivedSpans:
            locked = hold(connection, {r.rollout_id for r in records if r.rollout_id})
            rows: list[Row] = []
            transitions: list[tuple[int, Transition]] = []
            refused: list[int] = []
            late = 0
            for number, record in enumerate(records):
                rollout = locked.get(record.rollout_id)
                if record.claimed and (rollout is None or not rollout.runs(record.fence)):
                    refused.append(number)
                elif rollout is None:
                    rows.append(_live_row(record))
                elif settles and rollout.status in FINAL:
                    late += 1
                    rows.append(row_of(rollout.seq, record.fence, "", _late(record.span)))
                else:
                    rows.append(row_of(rollout.seq, record.fence, "", record.span))
                    transitions += [(rollout.seq, transition) for transition in record.transitions]
            new = self._add_rows(connection, with_heads(rows))
            _mark_live(connection, rows)
            count_costs(connection, billed_in(rows))
            self._transitions.add_all(connection, transitions)
            return ReceivedSpans(new, tuple(refused), late)

        return self._database.write(work, patience_s=patience_s)

    def _add_rows(self, connection: Connection, rows: list[Row]) -> int:
        """Insert rows and their long texts; return how many were new."""
        rows = store_texts(self._database, connection, rows)
        new = begin = 0
        if self._insert_together is not None:
            while len(rows) - begin >= _ROWS_PER_INSERT:
                some = chain.from_iterable(rows[begin : begin + _ROWS_PER_INSERT])
                new += _execute(connection, self._insert_together, tuple(some))
                begin += _ROWS_PER_INSERT
        if begin < len(rows):
            new += _execute(connection, self._insert, rows[begin:])
        return new

    def of(self, rollout_id: str | None, fence: int | None = None) -> list[Span]:
        """Return the spans of a rollout, in order of their start.

        Args:
            rollout_id: The rollout; None for spans without one.
            fence: Only this attempt; all attempts by default.
        """
        key: Any = NO_ROLLOUT
        if rollout_id:
            key = select(rollouts.c.seq).where(rollouts.c.id == rollout_id).scalar_subquery()
        query = select(spans).where(spans.c.rollout_seq == key)
        if fence is not None:
            query = query.where(spans.c.fence == fence)
        query = query.order_by(spans.c.start_ns, spans.c.seq)
        return self._database.read(lambda c: spans_of(c, c.execute(query)))

    def of_newest_attempts(self, rollout_ids: Sequence[str]) -> dict[str, list[Span]]:
        """Return the spans of each rollout's newest attempt, in order of their start."""
        newest = and_(spans.c.rollout_seq == rollouts.c.seq, spans.c.fence == rollouts.c.fence)
        query = (
            select(rollouts.c.id.label("rollout_id"), spans)
            .join_from(rollouts, spans, newest)
            .order_by(spans.c.start_ns, spans.c.seq)
        )
        stored = {id: clean(id) for id in rollout_ids}

        def work(connection: Connection) -> dict[str, list[Span]]:
            by_id: dict[str, list[Span]] = {id: [] for id in stored.values()}
            for chunk in chunks(list(by_id)):
                rows = connection.execute(query.where(rollouts.c.id.in_(chunk))).all()
                for row, span in zip(rows, spans_of(connection, rows), strict=True):
                    by_id[row.rollout_id].append(span)
            return by_id

        by_id = self._database.read(work)
        return {id: by_id[as_stored] for id, as_stored in stored.items()}

    def of_trace(self, trace_id: str) -> list[Span]:
        """Return the spans of a trace, in order of their start, live ones and those of rollouts."""
        live = select(spans).where(*_ALONE, spans.c.trace_id == trace_id)
        of_rollouts = select(spans).where(_OF_ROLLOUTS, spans.c.trace_id == trace_id)
        both = union_all(live, of_rollouts).subquery()
        query = select(both).order_by(both.c.start_ns, both.c.seq)
        return self._database.read(lambda c: spans_of(c, c.execute(query)))

    def live(
        self, agent: str, limit: int = 100, cursor: str | None = None
    ) -> tuple[list[Span], str | None]:
        """List one page of a live agent's spans, newest first. New spans do not shift the pages.

        Args:
            agent: The live agent.
            limit: Spans per page.
            cursor: Cursor returned with the previous page; None for the first.

        Returns:
            The page, and the cursor of the next one or None after the last.

        Raises:
            InputError: The cursor is invalid.
        """
        query = select(spans).where(_LIVE, spans.c.agent == agent)
        if cursor is not None:
            query = query.where(spans.c.seq < _seq_of(cursor))
        # One more than requested shows whether there is a next page.
        query = query.order_by(spans.c.seq.desc()).limit(limit + 1)

        def work(connection: Connection) -> tuple[list[Span], str | None]:
            rows = connection.execute(query).all()
            page = rows[:limit]
            more = len(rows) > limit and page
            return spans_of(connection, page), str(page[-1].seq) if more else None

        return self._database.read(work)

    def agents(self) -> list[str]:
        """List the names of live agents, sorted."""
        return self._database.read(lambda c: list(c.scalars(_AGENTS)))

    def prune(self, before_ns: int, limit: int = 1_000, grace_s: float = 0.0) -> int:
        """Delete live spans that ended before a moment, in order of storage per agent.

        On Postgres, a partition that lies before the moment is dropped as a whole.

        Args:
            before_ns: Unix time in nanoseconds.
            limit: Maximum number of spans to delete, except in partitions.
            grace_s: Seconds for which old spans may stay, to be dropped with their partition.

        Returns:
            Number of deleted spans.
        """
        while (dropped := self._partitions.drop(before_ns)) is not None:
            if dropped:
                return dropped
        grace_ns = int(grace_s * 1e9)
        tables = ["spans"] if self._database.is_sqlite else [DEFAULT_PARTITION]
        for part in self._partitions.existing():
            is_begun = part.begin_ns is None or part.begin_ns < before_ns
            if is_begun and part.end_ns > before_ns + grace_ns:
                tables.append(part.name)
        deleted = 0
        for name in tables:
            deleted += self._prune_rows(name, before_ns, limit - deleted)
        return deleted

    def _prune_rows(self, name: str, before_ns: int, limit: int) -> int:
        """Delete old live spans from the table `spans` or a partition of it."""
        if limit <= 0:
            return 0
        rows = table(name, column("seq"), column("agent"), column("end_ns"))
        # Searching takes no lock that writers wait for.
        old = self._database.read(lambda c: self._old(c, rows, before_ns, limit))
        if not old:
            return 0

        def work(connection: Connection) -> int:
            deleted = 0
            for chunk in chunks(old):
                gone = delete(rows).where(rows.c.seq.in_(chunk))
                deleted += connection.execute(gone).rowcount
            return deleted

        return self._database.write(work)

    def _old(
        self, connection: Connection, rows: TableClause, before_ns: int, limit: int
    ) -> list[int]:
        """Select live spans to delete.

        Examines several spans of each agent, not just the first, so that one span with a clock far
        ahead does not keep the ones after it. A search is bounded, and the next one continues where
        it ended.
        """
        names = list(connection.scalars(_AGENTS))
        begin = bisect_left(names, self._pruned_agent)
        old: list[int] = []
        looked_at = 0
        for name in names[begin:] + names[:begin]:
            self._pruned_agent = name
            window = (
                select(rows.c.seq, rows.c.end_ns)
                .where(text(f"{rows.name}.agent > ''"), rows.c.agent == name)
                .order_by(rows.c.seq)
                .limit(max(limit, _WINDOW))
            )
            window_rows = connection.execute(window).all()
            old += [row.seq for row in window_rows if row.end_ns < before_ns]
            looked_at += len(window_rows)
            if len(old) >= limit or looked_at >= _SEARCH:
                break
        return old[:limit]


def _mark_live(connection: Connection, rows: Sequence[Row]) -> None:
    mark_stale(connection, dict.fromkeys(row[3] for row in rows if row[0] == NO_ROLLOUT))


def _insert(mark: str, count: int) -> str:
    """INSERT of `count` rows that skips existing ones."""
    columns = ", ".join(Row._fields)
    row = f"({', '.join([mark] * len(Row._fields))})"
    return (
        f"INSERT INTO spans ({columns}) VALUES {', '.join([row] * count)}"  # noqa: S608
        " ON CONFLICT DO NOTHING"
    )


def _execute(connection: Connection, statement: str, values: Any) -> int:
    cursor = connection.exec_driver_sql(
        statement, values, execution_options={"preserve_rowcount": True}
    )
    return cursor.rowcount


_LIVE = text("spans.agent > ''")
_OF_ROLLOUTS = text("spans.rollout_seq > 0")
"""A literal, since SQLite ignores a partial index when its condition is a bound argument."""

_ALONE = (spans.c.rollout_seq == NO_ROLLOUT, spans.c.fence == 0)

# One index lookup per agent, however many spans it has.
_AGENTS = text(
    "WITH RECURSIVE live(label) AS ("
    " SELECT (SELECT min(agent) FROM spans WHERE agent > '')"
    " UNION ALL"
    " SELECT (SELECT min(agent) FROM spans WHERE agent > '' AND agent > label)"
    " FROM live WHERE label IS NOT NULL"
    ") SELECT label FROM live WHERE label IS NOT NULL"
)


def _late(span: Span) -> Span:
    return msgspec.structs.replace(span, attributes={**span.attributes, LATE_CALL: True})


def _live_row(record: SpanRecord) -> Row:
    span = record.span
    if record.rollout_id:
        attributes = {
            **span.attributes,
            UNKNOWN_ROLLOUT: record.rollout_id,
            UNKNOWN_ATTEMPT: record.fence,
        }
        span = msgspec.structs.replace(span, attributes=attributes)
    return row_of(NO_ROLLOUT, 0, record.agent or UNNAMED, span)


def _seq_of(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise InputError(
            f"The cursor {cursor!r} does not belong to a page of spans.",
            hint="Begin without a cursor.",
        )
    return int(cursor)
