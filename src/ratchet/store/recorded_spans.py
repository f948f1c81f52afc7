"""What traces recorded of their input and output: the few spans that show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from sqlalchemy import Connection, Text, select, type_coerce

from ratchet.store.engine import chunks
from ratchet.store.span_rows import NOT_A_HEAD
from ratchet.store.summaries import NAMES_NO_TRACE, SummaryKey, among
from ratchet.store.tables import feedback, spans
from ratchet.store.texts import spans_of
from ratchet.store.usage import OPERATION
from ratchet.types import Feedback, Span
from ratchet.types.trace import CALL_START, Trace, TraceRecording

_INPUT = "ratchet.input"
_AGENT = "invoke_agent"

_feedback = msgspec.json.Decoder(Feedback).decode


class _Chosen(NamedTuple):
    """Row numbers of a trace's spans that are read."""

    root: int
    first_call: int | None
    last_call: int | None
    unfinished: int | None = None


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
    """The agent's call that contains all other spans of a trace; None if there is no such call."""
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
    """The agent's call below a root span that records no input; None if there are several."""
    if states_input(root):
        return None
    return outermost([span for span in spans if span.attributes.get(OPERATION) == _AGENT])


def states_input(span: Span) -> bool:
    """Whether the span records an input."""
    return span.attributes.get(_INPUT) not in (None, "")


def recordings_of(
    connection: Connection, traces: Mapping[SummaryKey, Trace]
) -> dict[SummaryKey, TraceRecording]:
    """Read the recordings of traces; traces deleted in the meantime are omitted.

    Args:
        connection: An open transaction.
        traces: Summaries of the traces.
    """
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
    """The agent's call in each of these traces that has one."""
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
    of: dict[SummaryKey, list[Any]] = {}
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
    starts: dict[SummaryKey, list[tuple[tuple[int, int], str]]] = {}
    # All at once and by position: these are most of the rows that are read.
    for (
        seq,
        rollout_seq,
        fence,
        trace_id,
        span_id,
        parent_id,
        name,
        start_ns,
        usage,
        head,
    ) in connection.execute(light.where(among(keys))).all():
        key = SummaryKey(rollout_seq, fence, trace_id)
        at = (start_ns, seq)
        begins = name == CALL_START and parent_id is not None
        if begins:
            starts.setdefault(key, []).append((at, parent_id))
        else:
            ids.setdefault(key, set()).add(span_id)
        rank = (parent_id is not None, begins, head == NOT_A_HEAD, *at)
        if key not in roots or rank < roots[key][0]:
            roots[key] = (rank, seq)
        if usage:
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


def _feedback_of(connection: Connection, traces: Sequence[Trace]) -> dict[str, list[Feedback]]:
    """Feedback by trace: about the trace, or only about its conversation or rollout."""
    by_trace: dict[str, dict[int, Feedback]] = {}
    for column, name, conditions in (
        (feedback.c.trace_id, "trace_id", ()),
        (feedback.c.conversation_id, "conversation_id", (NAMES_NO_TRACE,)),
        (feedback.c.rollout_id, "rollout_id", (NAMES_NO_TRACE,)),
    ):
        about: dict[str, list[str]] = {}
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
