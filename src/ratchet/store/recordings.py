"""Repository of recordings: what traces recorded of their input and output, page by page."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from sqlalchemy import Connection, Text, func, select, text, type_coerce

from ratchet.store.engine import Database, chunks
from ratchet.store.keys import NO_ROLLOUT
from ratchet.store.span_rows import NOT_A_HEAD
from ratchet.store.summaries import NAMES_NO_TRACE, SummaryKey, among, summaries
from ratchet.store.tables import feedback, rollouts, spans
from ratchet.store.texts import spans_of
from ratchet.store.traces import cursor_of, oldest_of, page_of, position_of
from ratchet.store.usage import OPERATION, Price
from ratchet.types import Feedback, Span
from ratchet.types.trace import (
    EVERY,
    MIRRORED,
    OWN_AGENTS,
    START,
    ObservedTrace,
    Trace,
    TraceFilter,
    TraceRecording,
)

PAGE = 200
"""Traces per page, at most."""

CHANGED_SPANS = 2_000
"""Spans, and items of feedback, whose traces `changed` reads at once."""

TRACE_SPANS = 2_000
"""Most spans that `changed` reads of a trace, those that started first."""

TRACES_AT_ONCE = 200

IMPORTED = "import/"
"""Beginning of the purpose of imported trajectories."""

_HEADS = text("spans.head > 0")
_IN_CONVERSATIONS = text("spans.conversation_id > ''")
_INPUT = "ratchet.input"
_AGENT = "invoke_agent"

_feedback = msgspec.json.Decoder(Feedback).decode


class _Chosen(NamedTuple):
    """Row numbers of a trace's spans that are read."""

    root: int
    first_call: int | None
    last_call: int | None
    unfinished: int | None = None


class ChangedTraces(NamedTuple):
    """Traces of which something is new, and how far was looked."""

    traces: builtins.list[ObservedTrace]
    talks: frozenset[str]
    """Those of their conversations that have several traces."""
    spans: int
    """Number of the last span."""
    feedback: int
    """Number of the last item of feedback."""


class _Call(Protocol):
    @property
    def span_id(self) -> str: ...
    @property
    def parent_id(self) -> str | None: ...
    @property
    def start_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...


C = TypeVar("C", bound=_Call)


def outermost(calls: Sequence[C]) -> C | None:
    """The call of an agent that holds all others of a trace; None when there is no such call."""
    if not calls:
        return None
    ids = {call.span_id for call in calls}
    # Of calls that a coarse clock gives the same times, the one below no other is the outer one.
    outer = min(calls, key=lambda call: (call.start_ns, -call.end_ns, call.parent_id in ids))
    holds = all(
        call is outer or (call.end_ns <= outer.end_ns and call.parent_id != outer.parent_id)
        for call in calls
    )
    return outer if holds else None


def agent_call(root: Span, spans: Iterable[Span]) -> Span | None:
    """The agent's call below a root span that records no input; None when there are several."""
    if states_input(root):
        return None
    return outermost([span for span in spans if span.attributes.get(OPERATION) == _AGENT])


def states_input(span: Span) -> bool:
    """Whether the span records an input."""
    return span.attributes.get(_INPUT) not in (None, "")


class Recordings:
    """Inputs and outputs of traces; few spans of a trace are read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(
        self,
        criteria: TraceFilter = EVERY,
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
            return _recordings(connection, read), len(page), more

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
        """Read live traces in order of their start, to go on later where this ended.

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
            recordings = _by_key(connection, oldest)
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
        """Read the traces of which something was stored after a place, with all their spans.

        They are live ones and imported trajectories, not those of other rollouts nor of Ratchet's
        own calls. A trace is read again whenever more of it arrives.

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
            wanted = [
                key for key in keys if key.rollout_seq == NO_ROLLOUT or key.rollout_seq in imported
            ]
            traces = {
                key: trace
                for key, trace in summaries(connection, wanted, price).items()
                if trace.agent not in OWN_AGENTS and not trace.agent.endswith(MIRRORED)
            }
            by_key = _by_key(connection, traces)
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
                spans=rows[-1].seq if rows else spans_after,
                feedback=told[-1].seq if told else feedback_after,
            )

        return self._database.read(work)

    def asked_before(self, conversation_id: str, before_ns: int) -> TraceRecording | None:
        """Return the turn of a conversation that began last before a time; None without one."""
        criteria = TraceFilter(conversation_id=conversation_id, until_ns=before_ns)
        page, _, _ = self.page(criteria, limit=1)
        return page[0] if page else None


def _imported(connection: Connection, numbers: set[int]) -> set[int]:
    """Those of some rollouts that are imported trajectories."""
    found: set[int] = set()
    for chunk in chunks(sorted(numbers)):
        query = select(rollouts.c.seq).where(
            rollouts.c.seq.in_(chunk), rollouts.c.purpose.startswith(IMPORTED, autoescape=True)
        )
        found.update(connection.scalars(query))
    return found


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
    """Those of some conversations that have several traces."""
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


def _recordings(
    connection: Connection, traces: Mapping[SummaryKey, Trace]
) -> builtins.list[TraceRecording]:
    return list(_by_key(connection, traces).values())


def _by_key(
    connection: Connection, traces: Mapping[SummaryKey, Trace]
) -> dict[SummaryKey, TraceRecording]:
    if not traces:
        return {}
    chosen = _chosen(connection, list(traces))
    numbers = sorted({n for choice in chosen.values() for n in choice if n is not None})
    by_number = _numbered(connection, numbers)
    silent = [
        key
        for key, choice in chosen.items()
        if choice.root in by_number and not states_input(by_number[choice.root])
    ]
    called = _agent_calls(connection, silent)
    items = _feedback_of(connection, [trace for trace in traces.values() if trace.feedback])
    recordings: dict[SummaryKey, TraceRecording] = {}
    for key, trace in traces.items():
        root, first, last, unfinished = chosen[key] if key in chosen else _Chosen(0, None, None)
        if root not in by_number:
            continue
        recordings[key] = TraceRecording(
            trace=trace,
            root=by_number[root],
            call=called.get(key),
            first_call=by_number.get(first) if first is not None else None,
            last_call=by_number.get(last) if last is not None else None,
            feedback=tuple(items.get(trace.trace_id, ())),
            unfinished=by_number.get(unfinished) if unfinished is not None else None,
        )
    return recordings


def _numbered(connection: Connection, numbers: Sequence[int]) -> dict[int, Span]:
    by_number: dict[int, Span] = {}
    for chunk in chunks(numbers):
        rows = connection.execute(select(spans).where(spans.c.seq.in_(chunk))).all()
        # One row at a time: on Postgres a span may be deleted after its row was read.
        for row in rows:
            by_number.update((row.seq, span) for span in spans_of(connection, [row]))
    return by_number


def _agent_calls(connection: Connection, keys: Sequence[SummaryKey]) -> dict[SummaryKey, Span]:
    """The agent's call in each of these traces, where it is one."""
    if not keys:
        return {}
    light = select(
        spans.c.seq,
        spans.c.rollout_seq,
        spans.c.fence,
        spans.c.trace_id,
        spans.c.span_id,
        spans.c.parent_id,
        spans.c.start_ns,
        spans.c.end_ns,
    )
    # As attributes are written; quotes within a text are escaped there.
    agent_operation = f'"{OPERATION}":"{_AGENT}"'
    stated = type_coerce(spans.c.attributes, Text).contains(agent_operation, autoescape=True)
    of: dict[SummaryKey, builtins.list[Any]] = {}
    for row in connection.execute(light.where(among(keys), stated)):
        of.setdefault(SummaryKey(row.rollout_seq, row.fence, row.trace_id), []).append(row)
    chosen = {key: call.seq for key, rows in of.items() if (call := outermost(rows)) is not None}
    read = _numbered(connection, sorted(chosen.values()))
    return {key: read[number] for key, number in chosen.items() if number in read}


def _chosen(connection: Connection, keys: Sequence[SummaryKey]) -> dict[SummaryKey, _Chosen]:
    """Select the root or first span, the first and last call, and the start of a call that has not
    ended, of each trace."""
    light = select(
        spans.c.seq,
        spans.c.rollout_seq,
        spans.c.fence,
        spans.c.trace_id,
        spans.c.span_id,
        spans.c.parent_id,
        spans.c.name,
        spans.c.start_ns,
        spans.c.usage,
        spans.c.head,
    )
    roots: dict[SummaryKey, tuple[tuple[bool, bool, bool, int, int], int]] = {}
    first: dict[SummaryKey, tuple[int, int]] = {}
    last: dict[SummaryKey, tuple[int, int]] = {}
    ids: dict[SummaryKey, set[str]] = {}
    starts: dict[SummaryKey, builtins.list[tuple[tuple[int, int], str]]] = {}
    for row in connection.execute(light.where(among(keys))):
        key = SummaryKey(row.rollout_seq, row.fence, row.trace_id)
        at = (row.start_ns, row.seq)
        begins = row.name == START and row.parent_id is not None
        if begins:
            starts.setdefault(key, []).append((at, row.parent_id))
        else:
            ids.setdefault(key, set()).add(row.span_id)
        rank = (row.parent_id is not None, begins, row.head == NOT_A_HEAD, *at)
        roots[key] = min(roots.get(key, (rank, row.seq)), (rank, row.seq))
        if row.usage:
            first[key] = min(first.get(key, at), at)
            last[key] = max(last.get(key, at), at)
    unfinished = {
        key: min((at for at, call in begun if call not in ids.get(key, ())), default=None)
        for key, begun in starts.items()
    }
    return {
        key: _Chosen(
            number,
            first[key][1] if key in first else None,
            last[key][1] if key in last else None,
            begun[1] if (begun := unfinished.get(key)) is not None else None,
        )
        for key, (_, number) in roots.items()
    }


def _feedback_of(
    connection: Connection, traces: Sequence[Trace]
) -> dict[str, builtins.list[Feedback]]:
    """Feedback by trace: about the trace, and what names only its conversation or rollout."""
    by_trace: dict[str, dict[int, Feedback]] = {}
    for column, name, conditions in (
        (feedback.c.trace_id, "trace_id", ()),
        (feedback.c.conversation_id, "conversation_id", (NAMES_NO_TRACE,)),
        (feedback.c.rollout_id, "rollout_id", (NAMES_NO_TRACE,)),
    ):
        about: dict[str, builtins.list[str]] = {}
        for trace in traces:
            if subject := getattr(trace, name):
                about.setdefault(subject, []).append(trace.trace_id)
        for chunk in chunks(sorted(about)):
            query: Any = select(column, feedback.c.seq, feedback.c.body)
            for subject, seq, body in connection.execute(
                query.where(column.in_(chunk), *conditions)
            ):
                for trace_id in about[subject]:
                    by_trace.setdefault(trace_id, {})[seq] = _feedback(body)
    return {
        trace_id: [items[seq] for seq in sorted(items, reverse=True)]
        for trace_id, items in by_trace.items()
    }
