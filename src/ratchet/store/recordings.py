"""Repository of recordings: what traces recorded of their input and output, page by page."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, select, text

from ratchet.store.columns import clean
from ratchet.store.engine import Database, chunks, starts_with
from ratchet.store.keys import NO_ROLLOUT
from ratchet.store.recorded_spans import recordings_of
from ratchet.store.span_rows import LIVE_HEAD
from ratchet.store.summaries import SummaryKey, among, summaries
from ratchet.store.tables import feedback, rollouts, spans
from ratchet.store.texts import spans_of
from ratchet.store.traces import cursor_of, oldest_of, page_of, position_of
from ratchet.store.usage import Price
from ratchet.types import Span
from ratchet.types.trace import (
    EVERY_TRACE,
    OWN_AGENTS,
    ObservedTrace,
    Trace,
    TraceFilter,
    TraceRecording,
)

PAGE = 200
"""Maximum number of traces per page."""

CHANGED_SPANS = 200
"""Spans, and items of feedback, whose traces `changed` reads at a time. With 2,000, a server's scan
stopped each request in its way for 0.4 s; with 200, for 0.1 s, and the scan takes 1.5 × as long."""

TRACE_SPANS = 2_000
"""Maximum number of spans of a trace that `changed` reads, the earliest first."""

TRACES_AT_ONCE = 200

IMPORTED = "import/"
"""Prefix of the purpose of imported trajectories."""

_HEADS = text("spans.head > 0")
_IN_CONVERSATIONS = text("spans.conversation_id > ''")
_TURN_BEFORE = (
    select(spans.c.rollout_seq, spans.c.fence, spans.c.trace_id)
    .where(
        _HEADS,
        spans.c.head == LIVE_HEAD,
        _IN_CONVERSATIONS,
        spans.c.conversation_id == bindparam("conversation"),
        spans.c.start_ns < bindparam("before_ns"),
    )
    .order_by(spans.c.start_ns.desc(), spans.c.seq.desc())
    .limit(1)
)


class ChangedTraces(NamedTuple):
    """Traces with something new, and how far the store was searched."""

    traces: builtins.list[ObservedTrace]
    talks: frozenset[str]
    """Their conversations that have several traces."""
    spans: int
    """Number of the last span."""
    feedback: int
    """Number of the last item of feedback."""


class Recordings:
    """Inputs and outputs of traces; few spans of a trace are read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(
        self,
        criteria: TraceFilter = EVERY_TRACE,
        *,
        wanted: Callable[[Trace], bool] = lambda _: True,
        cursor: str | None = None,
        limit: int = PAGE,
    ) -> tuple[builtins.list[TraceRecording], int, str | None]:
        """Read one page, newest first.

        Args:
            criteria: Filter. Unless it filters by cost, the traces' costs are not computed.
            wanted: Whether to read a trace that passed it.
            cursor: Cursor returned with the previous page.
            limit: Traces to examine for the page, at most.

        Returns:
            The recordings, the number of traces that were examined for them, and the cursor of the
            next page or None after the last. A page may be empty although there is a next one.

        Raises:
            InputError: The cursor is invalid.
        """
        after = None if cursor is None else position_of(cursor)

        def work(connection: Connection) -> tuple[builtins.list[TraceRecording], int, str | None]:
            usage = criteria.min_cost_usd is not None
            page, more = page_of(connection, criteria, limit, after, usage=usage)
            read = {key: trace for key, trace in page.items() if wanted(trace)}
            return builtins.list(recordings_of(connection, read).values()), len(page), more

        return self._database.read(work)

    def following(
        self,
        criteria: TraceFilter,
        *,
        cursor: str | None = None,
        limit: int = PAGE,
        price: Price | None = None,
        ready: Callable[[TraceRecording], bool] = lambda _: True,
    ) -> tuple[builtins.list[TraceRecording], str | None]:
        """Read live traces in order of their start, so that a later call can continue.

        Args:
            criteria: Filter.
            cursor: What the previous call returned.
            limit: Traces to examine.
            price: Prices of calls that recorded no cost.
            ready: Whether a trace may be read now. The page ends before the first that may not.

        Returns:
            The recordings, and the cursor behind the last trace that was examined. Without any, the
            cursor is that given.

        Raises:
            InputError: The cursor is invalid.
        """
        after = None if cursor is None else position_of(cursor)

        def work(connection: Connection) -> tuple[builtins.list[TraceRecording], str | None]:
            oldest, places = oldest_of(connection, criteria, limit, after, price)
            recordings = recordings_of(connection, oldest)
            page: builtins.list[TraceRecording] = []
            last = after
            for key, place in places.items():
                recording = recordings.get(key)
                if recording is not None:
                    if not ready(recording):
                        break
                    page.append(recording)
                last = place
            return page, cursor_of(last)

        return self._database.read(work)

    def changed(
        self, spans_after: int, feedback_after: int, *, since_ns: int, price: Price | None = None
    ) -> ChangedTraces:
        """Read the traces for which anything was stored after a position, with all their spans.

        They are live ones and imported trajectories, not those of other rollouts nor of Ratchet's
        own calls. A trace is read with the last of its spans, and again whenever more of it
        arrives.

        Args:
            spans_after: Number of the last span that was looked at.
            feedback_after: Number of the last item of feedback that was looked at.
            since_ns: Only spans from this Unix time in nanoseconds on.
            price: Prices of calls that recorded no cost.
        """

        def work(connection: Connection) -> ChangedTraces:
            rows = connection.execute(
                select(spans.c.seq, spans.c.rollout_seq, spans.c.fence, spans.c.trace_id)
                .where(spans.c.seq > spans_after, spans.c.start_ns >= since_ns)
                .order_by(spans.c.seq)
                .limit(CHANGED_SPANS)
            ).all()
            told = connection.execute(
                select(feedback.c.seq, feedback.c.trace_id, feedback.c.conversation_id)
                .where(feedback.c.seq > feedback_after)
                .order_by(feedback.c.seq)
                .limit(CHANGED_SPANS)
            ).all()
            keys = {SummaryKey(row.rollout_seq, row.fence, row.trace_id): None for row in rows}
            about = {row.trace_id for row in told} - {""}
            of_conversations = {row.conversation_id for row in told if not row.trace_id} - {""}
            for column, ids in (
                (spans.c.trace_id, about),
                (spans.c.conversation_id, of_conversations),
            ):
                for chunk in chunks(sorted(ids)):
                    query: Any = select(
                        spans.c.rollout_seq, spans.c.fence, spans.c.trace_id
                    ).distinct()
                    keys.update(
                        (SummaryKey(*row), None)
                        for row in connection.execute(query.where(_HEADS, column.in_(chunk)))
                    )
            imported = _imported(connection, {key.rollout_seq for key in keys} - {NO_ROLLOUT})
            last = rows[-1].seq if rows else spans_after
            is_full = len(rows) == CHANGED_SPANS
            later = _continued(connection, list(keys), last, since_ns) if is_full else set()
            wanted = [
                key
                for key in keys
                if key not in later
                and (key.rollout_seq == NO_ROLLOUT or key.rollout_seq in imported)
            ]
            traces = {
                key: trace
                for key, trace in summaries(connection, wanted, price).items()
                if trace.agent not in OWN_AGENTS
            }
            by_key = recordings_of(connection, traces)
            spans_by_key = _all_spans(connection, list(by_key))
            return ChangedTraces(
                traces=[
                    ObservedTrace(
                        recording=recording,
                        spans=tuple(spans_by_key.get(key, ())),
                        imported=key.rollout_seq in imported,
                    )
                    for key, recording in by_key.items()
                ],
                talks=_talks(
                    connection, {trace.conversation_id for trace in traces.values()} - {""}
                ),
                spans=last,
                feedback=told[-1].seq if told else feedback_after,
            )

        return self._database.read(work)

    def turns_before(self, starts_ns: Mapping[str, int]) -> dict[str, TraceRecording]:
        """Return the last live turn before a time, of each conversation that has one.

        Args:
            starts_ns: By conversation, the Unix time in nanoseconds that the turn began before.
        """

        def work(connection: Connection) -> dict[str, TraceRecording]:
            keys = {}
            for conversation_id, start_ns in starts_ns.items():
                bound = {"conversation": clean(conversation_id), "before_ns": start_ns}
                row = connection.execute(_TURN_BEFORE, bound).first()
                if row is not None:
                    keys[conversation_id] = SummaryKey(*row)
            read = recordings_of(connection, summaries(connection, list(keys.values())))
            return {id: read[key] for id, key in keys.items() if key in read}

        return self._database.read(work)

    def imported_since(self, since: float) -> dict[str, int]:
        """Return the number of imported trajectories since a time in Unix seconds, by agent."""
        query = (
            select(rollouts.c.queue, func.count())
            .where(starts_with(rollouts.c.purpose, IMPORTED), rollouts.c.created_at >= since)
            .group_by(rollouts.c.queue)
        )
        rows = self._database.read(lambda c: c.execute(query).all())
        return {row[0]: row[1] for row in rows}


def _imported(connection: Connection, numbers: set[int]) -> set[int]:
    """Which of some rollouts are imported trajectories."""
    found: set[int] = set()
    for chunk in chunks(sorted(numbers)):
        query = select(rollouts.c.seq).where(
            rollouts.c.seq.in_(chunk), rollouts.c.purpose.startswith(IMPORTED, autoescape=True)
        )
        found.update(connection.scalars(query))
    return found


def _continued(
    connection: Connection, keys: Sequence[SummaryKey], last: int, since_ns: int
) -> set[SummaryKey]:
    """The traces that have a span after a position."""
    continued: set[SummaryKey] = set()
    for chunk in chunks(keys, TRACES_AT_ONCE):
        query = select(spans.c.rollout_seq, spans.c.fence, spans.c.trace_id).distinct()
        after = query.where(among(chunk), spans.c.seq > last, spans.c.start_ns >= since_ns)
        continued.update(SummaryKey(*row) for row in connection.execute(after))
    return continued


def _all_spans(
    connection: Connection, keys: Sequence[SummaryKey]
) -> dict[SummaryKey, builtins.list[Span]]:
    """The spans of traces, in order of their start, at most TRACE_SPANS of each."""
    by_key: dict[SummaryKey, builtins.list[Any]] = {}
    for chunk in chunks(keys, TRACES_AT_ONCE):
        query = select(spans).where(among(chunk)).order_by(spans.c.start_ns, spans.c.seq)
        for row in connection.execute(query):
            of_trace = by_key.setdefault(SummaryKey(row.rollout_seq, row.fence, row.trace_id), [])
            if len(of_trace) < TRACE_SPANS:
                of_trace.append(row)
    return {key: spans_of(connection, rows) for key, rows in by_key.items()}


def _talks(connection: Connection, conversation_ids: set[str]) -> frozenset[str]:
    """The conversations among these that have several traces."""
    several: set[str] = set()
    for chunk in chunks(sorted(conversation_ids)):
        query = (
            select(spans.c.conversation_id)
            .where(_HEADS, _IN_CONVERSATIONS, spans.c.conversation_id.in_(chunk))
            .group_by(spans.c.conversation_id)
            .having(func.count(spans.c.trace_id.distinct()) > 1)
        )
        several.update(connection.scalars(query))
    return frozenset(several)
