"""Repository of traces: search, pages, details and following of new ones."""

from __future__ import annotations

import builtins
import heapq
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, Text, and_, exists, func, select, text, tuple_, type_coerce

from ratchet.store.columns import clean
from ratchet.store.engine import Database, starts_with
from ratchet.store.feedback import FeedbackLog
from ratchet.store.keys import NO_ROLLOUT
from ratchet.store.span_rows import LIVE_HEAD, MAX_ID, ROLLOUT_HEAD
from ratchet.store.summaries import SummaryKey, among, summaries
from ratchet.store.tables import rollouts, spans
from ratchet.store.texts import spans_of
from ratchet.store.trace_index import TraceIndex
from ratchet.store.trace_texts import lines_by_trace
from ratchet.store.usage import OPERATION, STREAM, Price, cost_of, used_by, why_unmeasured
from ratchet.types import Feedback, InputError, Span, total_cost
from ratchet.types.trace import (
    EVERY_TRACE,
    OWN_AGENTS,
    SUMS,
    Sort,
    SpanSkeleton,
    Trace,
    TraceDetail,
    TraceFilter,
    TraceSkeleton,
    first_of,
)

MAX_TRACES_EXAMINED = 2_000
"""Maximum number of traces examined for one page, since conditions without an index are computed.
A page may thus be short; the next continues. A page by duration or cost ranks exactly these."""

MAX_SPANS = 10_000
"""Default maximum number of spans returned for a trace."""

MESSAGE_LIMIT = 500
"""Characters of an error message in a skeleton."""

_WINDOW = 200
"""Traces summarised at a time."""

_LATE = 1_000
"""Spans re-read by `after`, for those that became visible late."""

_AROUND_NS = 3_600 * 10**9
"""How long before a live call its surrounding spans may have begun."""

_FOLLOWED = 5_000
"""Maximum number of spans read by `after`."""

_HEADS = text("spans.head > 0")
_OF_ROLLOUTS = text("spans.rollout_seq > 0")
_IN_CONVERSATIONS = text("spans.conversation_id > ''")
"""A literal, since SQLite ignores a partial index when its condition is a bound argument."""

_CURSOR = re.compile(r"(-?[0-9]{1,19})\.([0-9]{1,18})")


Part = TypeVar("Part")


class _Head(NamedTuple):
    """The span that represents a trace in the index."""

    start_ns: int
    seq: int
    key: SummaryKey


class Traces:
    """Traces of live agents, and optionally of rollouts."""

    def __init__(self, database: Database, feedback: FeedbackLog, index: TraceIndex) -> None:
        self._database = database
        self._feedback = feedback
        self._index = index

    def list(
        self,
        criteria: TraceFilter = EVERY_TRACE,
        *,
        sort: Sort = "newest",
        limit: int = 100,
        cursor: str | None = None,
        price: Price | None = None,
        texts: bool = False,
    ) -> tuple[builtins.list[Trace], str | None]:
        """List one page of traces.

        Args:
            criteria: Filter.
            sort: `newest` sorts by start. A page of `slowest` or `costliest` ranks the
                `MAX_TRACES_EXAMINED` newest traces from the cursor on; merge several pages with
                `first_of`.
            limit: Traces per page.
            cursor: Cursor returned with the previous page.
            price: Prices of calls that recorded no cost.
            texts: Read what each trace says: its input, output, error and user.

        Returns:
            The page, and the cursor of the next one or None after the last. A page may be short or
            empty although there is a next one, since a bounded number of traces is examined.

        Raises:
            InputError: The cursor is invalid.
        """
        after = None if cursor is None else position_of(cursor)
        if criteria.is_indexed:
            self._index.catch_up(price)

        def work(connection: Connection) -> tuple[builtins.list[Trace], str | None]:
            examined = limit if sort == "newest" else MAX_TRACES_EXAMINED
            read = self._indexed_page if criteria.is_indexed else page_of
            page, more = read(connection, criteria, examined, after, price)
            if sort != "newest":
                key_of = {id(trace): key for key, trace in page.items()}
                page = {key_of[id(trace)]: trace for trace in first_of(page.values(), sort, limit)}
            if texts:
                page = self._with_texts(connection, page)
            return builtins.list(page.values()), more

        return self._database.read(work)

    def _indexed_page(
        self,
        connection: Connection,
        criteria: TraceFilter,
        limit: int,
        after: tuple[int, int] | None,
        price: Price | None,
    ) -> tuple[dict[SummaryKey, Trace], str | None]:
        """Like `page_of`, by the index of live traces."""
        place = None if after is None else after[0]
        found, following = self._index.page(connection, criteria, limit, place)
        keys: Sequence[SummaryKey] = [SummaryKey(NO_ROLLOUT, 0, each.trace_id) for each in found]
        keys = _recording(connection, keys, criteria, None)
        figures = summaries(connection, keys, price)
        # The index may be older than the spans.
        page = {key: trace for key, trace in figures.items() if criteria.fits(trace)}
        return page, None if following is None else cursor_of((following, 0))

    def _with_texts(
        self, connection: Connection, traces: dict[SummaryKey, Trace]
    ) -> dict[SummaryKey, Trace]:
        """The traces with their texts, from the index or else from their spans."""
        live = {key.trace_id for key in traces if key.rollout_seq == NO_ROLLOUT}
        indexed = self._index.texts_of(connection, live)
        others = {
            key: trace
            for key, trace in traces.items()
            if key.rollout_seq != NO_ROLLOUT or key.trace_id not in indexed
        }
        read = lines_by_trace(connection, others)
        return {
            key: msgspec.structs.replace(trace, **lines._asdict())
            if (lines := read.get(key) or indexed.get(key.trace_id)) is not None
            else trace
            for key, trace in traces.items()
        }

    def get(
        self, trace_id: str, *, limit: int = MAX_SPANS, price: Price | None = None
    ) -> TraceDetail | None:
        """Return a trace with its spans and feedback; None if it is unknown.

        Args:
            trace_id: Its id.
            limit: Maximum number of spans, those that started first.
            price: Prices of calls that recorded no cost.
        """
        read = self._read(trace_id, limit, price, (spans,), spans_of)
        if read is None:
            return None
        trace, ordered = read
        return TraceDetail(trace=trace, spans=ordered, feedback=self._feedback_of(trace))

    def skeleton(
        self, trace_id: str, *, limit: int = MAX_SPANS, price: Price | None = None
    ) -> TraceSkeleton | None:
        """Return a trace with its spans' skeletons and feedback; None if it is unknown.

        Arguments are those of `get`.
        """

        def bones(_: Connection, rows: Sequence[Any]) -> builtins.list[SpanSkeleton]:
            return [_bones(row, price) for row in rows]

        read = self._read(trace_id, limit, price, _BONES, bones)
        if read is None:
            return None
        trace, ordered = read
        return TraceSkeleton(
            trace=trace,
            spans=ordered,
            total=trace.spans,
            returned=len(ordered),
            feedback=self._feedback_of(trace),
        )

    def span(self, trace_id: str, span_id: str) -> Span | None:
        """Return a single span of a trace; None if it is unknown."""

        def work(connection: Connection) -> Span | None:
            keys = connection.execute(_keys_of(trace_id)).all()
            for key in keys:
                rows = connection.execute(
                    select(spans)
                    .where(among([SummaryKey(*key)]), spans.c.span_id == clean(span_id))
                    .limit(1)
                ).all()
                if rows:
                    return spans_of(connection, rows)[0]
            return None

        return self._database.read(work)

    def _read(
        self,
        trace_id: str,
        limit: int,
        price: Price | None,
        columns: Sequence[Any],
        convert: Callable[[Connection, Sequence[Any]], builtins.list[Part]],
    ) -> tuple[Trace, builtins.list[Part]] | None:
        """Summary and converted rows of a trace's spans, in order of their start."""

        def work(connection: Connection) -> tuple[Trace, builtins.list[Part]] | None:
            keys = connection.execute(_keys_of(trace_id))
            parts = summaries(connection, [SummaryKey(*row) for row in keys], price)
            if not parts:
                return None
            rows: builtins.list[Any] = []
            for key in parts:
                query = select(*columns).where(among([key]))
                ordered = query.order_by(spans.c.start_ns, spans.c.seq).limit(limit)
                rows += connection.execute(ordered).all()
            if len(parts) > 1:
                rows = sorted(rows, key=lambda row: (row.start_ns, row.seq))[:limit]
            return merged_trace(list(parts.values())), convert(connection, rows)

        return self._database.read(work)

    def _feedback_of(self, trace: Trace) -> builtins.list[Feedback]:
        items, _ = self._feedback.list(trace_id=trace.trace_id, limit=1_000)
        for what, id in (
            ("rollout_id", trace.rollout_id),
            ("conversation_id", trace.conversation_id),
        ):
            if id:
                more, _ = self._feedback.list(**{what: id}, limit=1_000)
                items += [feedback for feedback in more if not feedback.trace_id]
        return items

    def find(self, prefix: str, limit: int = 10) -> builtins.list[str]:
        """Find ids of traces by prefix, sorted."""
        if not prefix or len(prefix) > MAX_ID:
            return []
        query = (
            select(spans.c.trace_id)
            .where(_HEADS, starts_with(spans.c.trace_id, clean(prefix)))
            .distinct()
            .order_by(spans.c.trace_id)
            .limit(limit)
        )
        return self._database.read(lambda c: list(c.scalars(query)))

    def mark(self) -> int:
        """Return the current end of the store, to follow it with `after`."""
        return self._database.read(lambda c: c.scalar(select(func.max(spans.c.seq)))) or 0

    def after(
        self,
        mark: int,
        criteria: TraceFilter = EVERY_TRACE,
        *,
        price: Price | None = None,
        texts: bool = False,
    ) -> tuple[builtins.list[Trace], int]:
        """Return traces with spans stored after a mark, earliest first.

        Args:
            mark: Result of `mark`, or the mark that this method returned.
            criteria: Filter.
            price: Prices of calls that recorded no cost.
            texts: Read what each trace says: its input, output, error and user.

        Returns:
            The traces, and the next mark. A trace is returned again whenever more of its spans
            arrive.
        """

        if criteria.is_indexed:
            self._index.catch_up(price)
        # On Postgres a number may become visible after a higher one: look back a little.
        back = 0 if self._database.is_sqlite else _LATE

        def work(connection: Connection) -> tuple[builtins.list[Trace], int]:
            query = (
                select(spans.c.seq, spans.c.rollout_seq, spans.c.fence, spans.c.trace_id)
                .where(spans.c.seq > mark - back)
                .order_by(spans.c.seq)
                .limit(_FOLLOWED + back)
            )
            rows = connection.execute(query).all()
            keys = {
                SummaryKey(row.rollout_seq, row.fence, row.trace_id): row.seq
                for row in rows
                if criteria.rollouts or row.rollout_seq == 0
            }
            fit = _recording(connection, builtins.list(keys), criteria, None)
            if criteria.is_indexed:
                live = {key.trace_id for key in fit if key.rollout_seq == NO_ROLLOUT}
                held = self._index.holding(connection, criteria, live)
                fit = [key for key in fit if key.trace_id in held]
            by_key = summaries(connection, fit, price)
            fitting = {
                key: trace
                for key, trace in by_key.items()
                if criteria.names(trace) and criteria.fits(trace)
            }
            if texts:
                fitting = self._with_texts(connection, fitting)
            shown = builtins.list(fitting.values())
            shown.sort(key=lambda trace: trace.start_ns)
            return shown, rows[-1].seq if rows else mark

        return self._database.read(work)


def _keys_of(trace_id: str) -> Any:
    query = select(spans.c.rollout_seq, spans.c.fence, spans.c.trace_id).distinct()
    return query.where(_HEADS, spans.c.trace_id == clean(trace_id)).limit(1_000)


class _Asked(msgspec.Struct, gc=False):
    """The attributes that a span's skeleton needs; the others are skipped unread."""

    operation: Any = msgspec.field(default=None, name=OPERATION)
    stream: Any = msgspec.field(default=None, name=STREAM)


_asked = msgspec.json.Decoder(_Asked).decode

_BONES = (
    spans.c.start_ns,
    spans.c.seq,
    spans.c.end_ns,
    spans.c.span_id,
    spans.c.parent_id,
    spans.c.name,
    spans.c.status,
    spans.c.message,
    spans.c.usage,
    type_coerce(spans.c.attributes, Text),
)


def _bones(row: Any, price: Price | None) -> SpanSkeleton:
    start_ns, _, end_ns, span_id, parent_id, name, status, message, usage, attributes = row
    asked = _asked(attributes)
    operation = asked.operation if isinstance(asked.operation, str) else ""
    call = used_by(span_id, parent_id, usage).call if usage else None
    # A span that sums the usage of the calls below it costs nothing itself.
    is_call = call is not None and operation not in SUMS
    cost = cost_of(call, price) if call is not None and is_call else None
    return SpanSkeleton(
        span_id=span_id,
        parent_id=parent_id,
        name=name,
        operation=operation or ("chat" if is_call else "step"),
        start_ns=start_ns,
        end_ns=end_ns,
        # The default itself, so that it is left out of JSON.
        status="unset" if status == "unset" else status,
        message=message[:MESSAGE_LIMIT],
        model=call.model if call else "",
        input_tokens=call.input_tokens if call else 0,
        output_tokens=call.output_tokens if call else 0,
        cost_usd=cost,
        unmeasured=why_unmeasured(call, {STREAM: asked.stream})
        if call is not None and is_call and cost is None
        else "",
    )


def merged_trace(parts: Sequence[Trace]) -> Trace:
    """Merge the parts of a trace from several attempts, or an attempt and live traffic."""
    if len(parts) == 1:
        return parts[0]
    start_ns = min(part.start_ns for part in parts)
    end_s = max(part.start_ns / 1e9 + part.duration_s for part in parts)
    first = min(parts, key=lambda part: (part.rootless, part.start_ns))
    cost = total_cost(part.cost for part in parts)
    worst = [part.worst for part in parts if part.worst is not None]
    return msgspec.structs.replace(
        first,
        start_ns=start_ns,
        duration_s=end_s - start_ns / 1e9,
        spans=sum(part.spans for part in parts),
        errors=sum(part.errors for part in parts),
        input_tokens=sum(part.input_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        cost_usd=cost.usd,
        known_usd=cost.known_usd if cost.unpriced else 0.0,
        unpriced=cost.unpriced,
        models=tuple(sorted({model for part in parts for model in part.models})),
        conversation_id=next((p.conversation_id for p in parts if p.conversation_id), ""),
        feedback=max(part.feedback for part in parts),
        worst=min(worst) if worst else None,
    )


def page_of(
    connection: Connection,
    criteria: TraceFilter,
    limit: int,
    after: tuple[int, int] | None,
    price: Price | None = None,
    *,
    usage: bool = True,
) -> tuple[dict[SummaryKey, Trace], str | None]:
    """One page of traces, newest first, and the cursor of the next; see `Traces.list`.

    Without `usage`, tokens and costs are 0.
    """
    page: dict[SummaryKey, Trace] = {}
    looked_at = 0
    window = min(limit + 1, _WINDOW)
    while looked_at < MAX_TRACES_EXAMINED:
        heads = _heads(connection, criteria, window, after)
        # A trace has no span before its first head. (The first one of a conversation is not that.)
        bounded = heads and criteria.conversation_id is None
        since_ns = heads[-1].start_ns if bounded else None
        keys = _recording(connection, [head.key for head in heads], criteria, since_ns)
        figures = summaries(connection, keys, price, since_ns, usage=usage, failed=criteria.errors)
        for head in heads:
            trace = figures.get(head.key)
            if trace is not None and criteria.fits(trace):
                if len(page) == limit:
                    return page, cursor_of(after)
                page[head.key] = trace
            after = (head.start_ns, head.seq)
        looked_at += len(heads)
        if len(heads) < window:
            return page, None
        # Search for rare traces in larger steps: one statement finds those that failed.
        rare = criteria.errors and 10 * len(page) < looked_at
        window = min(MAX_TRACES_EXAMINED - looked_at, 5 * _WINDOW) if rare else _WINDOW
    return page, cursor_of(after)


def _recording(
    connection: Connection,
    keys: Sequence[SummaryKey],
    criteria: TraceFilter,
    since_ns: int | None,
) -> Sequence[SummaryKey]:
    """Those traces whose first span or root recorded what the filter names."""
    wanted = criteria.recorded.items()
    if not wanted or not keys:
        return keys
    since = () if since_ns is None else (spans.c.start_ns >= since_ns,)
    query = select(spans.c.rollout_seq, spans.c.fence, spans.c.trace_id, spans.c.attributes).where(
        _HEADS, spans.c.trace_id.in_({key.trace_id for key in keys}), *since
    )
    fit = {
        SummaryKey(*row[:3])
        for row in connection.execute(query)
        if all(row.attributes.get(name) == value for name, value in wanted)
    }
    return [key for key in keys if key in fit]


def _heads(
    connection: Connection, criteria: TraceFilter, limit: int, after: tuple[int, int] | None
) -> builtins.list[_Head]:
    """The next traces, newest first, each by its first head."""
    kinds = (LIVE_HEAD, ROLLOUT_HEAD) if criteria.rollouts else (LIVE_HEAD,)
    lists = [connection.execute(_query(criteria, kind, limit, after)).all() for kind in kinds]
    merged = heapq.merge(*lists, key=lambda row: (row[0], row[1]), reverse=True)
    return [_Head(row[0], row[1], SummaryKey(*row[2:])) for row in itertools.islice(merged, limit)]


def oldest_of(
    connection: Connection,
    criteria: TraceFilter,
    limit: int,
    after: tuple[int, int] | None,
    price: Price | None = None,
) -> tuple[dict[SummaryKey, Trace], dict[SummaryKey, tuple[int, int]]]:
    """One page of live traces, oldest first, and the position of each that was examined.

    Args:
        connection: The connection.
        criteria: Filter.
        limit: Traces to examine.
        after: Position of the previous page.
        price: Prices of calls that recorded no cost.
    """
    rows = connection.execute(_query(criteria, LIVE_HEAD, limit, after, oldest=True)).all()
    heads = [_Head(row[0], row[1], SummaryKey(*row[2:])) for row in rows]
    # The head may be a call within a request that began before it.
    since_ns = heads[0].start_ns - _AROUND_NS if heads else None
    keys = _recording(connection, [head.key for head in heads], criteria, since_ns)
    figures = summaries(connection, keys, price, since_ns)
    oldest = {
        head.key: figures[head.key]
        for head in heads
        if head.key in figures and criteria.fits(figures[head.key])
    }
    return oldest, {head.key: (head.start_ns, head.seq) for head in heads}


def _query(
    criteria: TraceFilter,
    kind: int,
    limit: int,
    after: tuple[int, int] | None,
    *,
    oldest: bool = False,
) -> Any:
    position = tuple_(spans.c.start_ns, spans.c.seq)
    query = select(
        spans.c.start_ns, spans.c.seq, spans.c.rollout_seq, spans.c.fence, spans.c.trace_id
    ).where(_HEADS, spans.c.head == kind)
    if kind == ROLLOUT_HEAD:
        # Redundant, but it names the partition on Postgres.
        query = query.where(_OF_ROLLOUTS)
    query = query.where(~_is_preceded(criteria.conversation_id, as_stored=oldest))
    if criteria.conversation_id is not None:
        query = query.where(
            _IN_CONVERSATIONS, spans.c.conversation_id == clean(criteria.conversation_id)
        )
    if criteria.agent is not None:
        query = query.where(_is_of(criteria.agent, kind))
    if not criteria.own_calls and kind == LIVE_HEAD:
        query = query.where(spans.c.agent.not_in(sorted(OWN_AGENTS)))
    if criteria.since_ns is not None:
        query = query.where(spans.c.start_ns >= criteria.since_ns)
    if criteria.until_ns is not None:
        query = query.where(spans.c.start_ns < criteria.until_ns)
    order = (spans.c.start_ns, spans.c.seq)
    if after is not None:
        edge = tuple_(*after)
        query = query.where(position > edge if oldest else position < edge)
    return query.order_by(*(order if oldest else (column.desc() for column in order))).limit(limit)


def _is_preceded(conversation_id: str | None, *, as_stored: bool = False) -> Any:
    """Whether a trace has an earlier head than the selected one.

    Args:
        conversation_id: Only heads of this conversation; None for all.
        as_stored: Whether the head that was stored first is the earliest, so that the trace keeps
            its place when a span comes later that began before it.
    """
    earlier = spans.alias("earlier")

    def place(of: Any) -> Any:
        return of.c.seq if as_stored else tuple_(of.c.start_ns, of.c.seq)

    mine = and_(
        text("earlier.head > 0"),
        earlier.c.trace_id == spans.c.trace_id,
        earlier.c.rollout_seq == spans.c.rollout_seq,
        earlier.c.fence == spans.c.fence,
        place(earlier) < place(spans),
    )
    if conversation_id is not None:
        mine = and_(mine, earlier.c.conversation_id == clean(conversation_id))
    return exists().where(mine)


def _is_of(agent: str, kind: int) -> Any:
    if kind == LIVE_HEAD:
        return spans.c.agent == clean(agent)
    return exists().where(rollouts.c.seq == spans.c.rollout_seq, rollouts.c.queue == clean(agent))


def cursor_of(position: tuple[int, int] | None) -> str | None:
    """Encode a cursor from a start time and a row number."""
    return None if position is None else f"{position[0]}.{position[1]}"


def position_of(cursor: str) -> tuple[int, int]:
    """Decode a cursor.

    Raises:
        InputError: It is not a cursor.
    """
    match = _CURSOR.fullmatch(cursor) if cursor.isascii() else None
    if match is None or not -(2**63) <= int(match[1]) < 2**63:
        raise InputError(
            f"The cursor {cursor[:60]!r} is invalid.",
            hint="Begin without a cursor.",
        )
    return int(match[1]), int(match[2])
