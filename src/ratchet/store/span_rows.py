"""Conversion of spans to and from database rows, and the choice of a trace's head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ratchet.store.columns import clean, encode
from ratchet.store.long_texts import LongTexts, has_long_text, separated
from ratchet.store.usage import COST, INPUT_TOKENS, OPERATION, OUTPUT_TOKENS, usage_text
from ratchet.types import InputError, Span, SpanEvent

MAX_ID = 200
"""Maximum length of an id or agent name, in characters; databases limit indexed values."""

NOT_A_HEAD, LIVE_HEAD, ROLLOUT_HEAD = 0, 1, 2
"""Whether a span represents its trace in lists. The head of a trace is the span with the
earliest start in a batch, so that every trace has a head even if its root is late or missing."""

_row = tuple.__new__
"""Takes half the time of calling the class, which passes each value by name."""

_INT64 = 2**63
_INT32 = 2**31


class Row(NamedTuple):
    """A span in the database: every column but the serial one."""

    rollout_seq: int
    fence: int
    agent: str
    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ns: int
    end_ns: int
    status: str
    message: str
    attributes: str
    events: str
    conversation_id: str
    usage: str
    head: int
    texts: str | LongTexts
    """The long texts of the attributes; as stored, references to them."""


def row_of(rollout_seq: int, fence: int, agent: str, span: Span) -> Row:
    """Convert a span to a row, not marked as head.

    Raises:
        InputError: An id is too long, or a number too large, for the database.
    """
    trace_id, span_id, parent_id = span.trace_id, span.span_id, span.parent_id
    ids = f"{trace_id}{span_id}{parent_id}"
    if not ids.isascii() or "\x00" in ids:
        trace_id, span_id = clean(trace_id), clean(span_id)
        parent_id = None if parent_id is None else clean(parent_id)
    start_ns, end_ns = span.start_ns, span.end_ns
    if (
        len(trace_id) > MAX_ID
        or len(span_id) > MAX_ID
        or len(agent) > MAX_ID
        or not -_INT32 <= fence < _INT32
        or not -_INT64 <= start_ns < _INT64
        or not -_INT64 <= end_ns < _INT64
    ):
        raise InputError(
            f"The span {span_id[:40]!r} of trace {trace_id[:40]!r} cannot be stored.",
            hint=f"Ids and names have at most {MAX_ID} characters, times fit into 64 bits and"
            " fences into 32.",
        )
    attributes = span.attributes
    # Most spans name no conversation and have no usage: skip the calls for them.
    conversation_id = usage = ""
    if "gen_ai.conversation.id" in attributes or "session.id" in attributes:
        conversation_id = conversation_of(attributes)
    if (
        INPUT_TOKENS in attributes
        or OUTPUT_TOKENS in attributes
        or COST in attributes
        or OPERATION in attributes
    ):
        usage = usage_text(attributes, failed=span.status == "error")
    message, events = span.message, span.events
    texts: str | LongTexts = ""
    short: Mapping[str, Any] = attributes
    if has_long_text(attributes):
        short, long = separated(attributes)
        texts = long or ""
    return _row(
        Row,
        (
            rollout_seq,
            fence,
            clean(agent),
            trace_id,
            span_id,
            parent_id,
            clean(span.name),
            start_ns,
            end_ns,
            span.status,
            clean(message) if message else "",
            encode(short),
            encode(events) if events else "[]",
            conversation_id,
            usage,
            NOT_A_HEAD,
            texts,
        ),
    )


def conversation_of(attributes: Mapping[str, Any]) -> str:
    """The conversation that a span's attributes name; empty if they name none.

    An id too long for an index is truncated.
    """
    conversation_id = attributes.get("gen_ai.conversation.id") or attributes.get("session.id")
    if conversation_id is None or conversation_id.__class__ is not str:
        return str(conversation_id)[:MAX_ID] if conversation_id.__class__ is int else ""
    return clean(conversation_id[:MAX_ID])


def with_heads(rows: Sequence[Row]) -> list[Row]:
    """Mark the heads among the rows of a batch.

    The head is the earliest span of a trace among those of the same conversation, or of none.
    """
    marked = list(rows)
    first: dict[tuple[int, int, str, str], int] = {}
    # Ids are rarely repeated; only the first such span will be stored.
    has_duplicates = len({row[4] for row in rows}) < len(marked)
    head_keys: set[tuple[int, int, str, str]] = set()
    last: tuple[int, int, str, str] | None = None
    began = 0
    for number, row in enumerate(marked):
        if has_duplicates:
            own = (row[0], row[1], row[3], row[4])
            if own in head_keys:
                continue
            head_keys.add(own)
        key = (row[0], row[1], row[3], row[13])
        # Spans of a trace arrive together, and the earliest is often the first.
        if key == last and row[7] >= began:
            continue
        at = first.setdefault(key, number)
        if row[7] < marked[at][7]:
            first[key] = at = number
        last, began = key, marked[at][7]
    for number in first.values():
        row = marked[number]
        head = ROLLOUT_HEAD if row[0] else LIVE_HEAD
        marked[number] = _row(Row, (*row[:15], head, row[16]))
    return marked


def span_of(row: Any, attributes: dict[str, Any]) -> Span:
    """Build a span from a full row and its attributes with their long texts."""
    return Span(
        trace_id=row.trace_id,
        span_id=row.span_id,
        parent_id=row.parent_id,
        name=row.name,
        start_ns=row.start_ns,
        end_ns=row.end_ns,
        status=row.status,
        message=row.message,
        attributes=attributes,
        events=tuple(msgspec.convert(event, SpanEvent) for event in row.events),
    )
