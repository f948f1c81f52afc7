"""Turns finished spans and feedback into records: normalised, bounded, redacted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ratchet.observe.dialects import normalise
from ratchet.observe.frames import Record
from ratchet.observe.otel_spans import from_otel
from ratchet.observe.redaction import without_content
from ratchet.observe.step_span import StepSpan
from ratchet.types import Feedback, Span, SpanRecord

_log = logging.getLogger("ratchet")

Redact = Callable[[SpanRecord], SpanRecord]
RedactFeedback = Callable[[Feedback], Feedback]

MAX_SPAN = 2 * 1024 * 1024
"""Maximum number of characters of one span; its longest attributes are cut first."""


class RecordBuilder:
    """Turns finished spans and feedback into records.

    Args:
        agent: Name of the live agent that the spans belong to.
        content: Whether inputs and outputs are kept.
        redact: Redacts each span's record. A record that it raises on is not sent.
        redact_feedback: Redacts each statement of feedback, likewise.
    """

    def __init__(
        self,
        agent: str,
        *,
        content: bool = True,
        redact: Redact | None = None,
        redact_feedback: RedactFeedback | None = None,
    ) -> None:
        self._agent = agent
        self._content = content
        self._redact = redact
        self._redact_feedback = redact_feedback
        self._warned = False
        self.broken = 0
        """Number of items that could not be turned into records."""

    def records(self, items: Iterable[Any]) -> list[Record]:
        """The records of finished spans and feedback; an error loses only its own item."""
        records: list[Record] = []
        for item in items:
            try:
                records.append(
                    self._feedback(item) if item.__class__ is Feedback else self._record(item)
                )
            except Exception as error:
                self.broken += 1
                why = f"{type(error).__name__}: {error}"
                if item.__class__ is Feedback:
                    _log.warning("Feedback %s was not sent: %s", item.id, why)
                elif not self._warned:
                    self._warned = True
                    _log.warning("A span could not be recorded: %s", why)
        return records

    def _feedback(self, item: Feedback) -> Feedback:
        return item if self._redact_feedback is None else self._redact_feedback(item)

    def _record(self, ended: Any) -> SpanRecord:
        if ended.__class__ is StepSpan:
            span = ended.frozen()
            foreign = ended.foreign
            large = ended.weight > MAX_SPAN
        else:
            span, foreign, large = from_otel(ended), True, True
        if foreign:
            attributes = normalise(span.name, span.attributes, span.events)
            if attributes is not span.attributes:
                span = msgspec.structs.replace(span, attributes=attributes)
        if not self._content:
            span = without_content(span)
        if large:
            span = bounded(span)
        record = SpanRecord(span=span, agent=self._agent)
        return record if self._redact is None else self._redact(record)


def bounded(span: Span, limit: int = MAX_SPAN) -> Span:
    """The span, cut to roughly the given number of characters."""
    sizes = {key: _size(value) for key, value in span.attributes.items()}
    events = [sum(_size(value) for value in event.attributes.values()) for event in span.events]
    too_much = sum(sizes.values()) + sum(events) - limit
    if too_much <= 0:
        return span
    attributes = dict(span.attributes)
    kept_events = span.events
    if sum(events) > limit // 2:
        kept_events, too_much = (), too_much - sum(events)
        attributes["otel.dropped_events_count"] = len(span.events)
    for key in sorted(sizes, key=lambda key: -sizes[key]):
        if too_much <= 0:
            break
        value = attributes[key]
        # The beginning of a text is useful, that of a list's JSON may not be.
        attributes[key] = (
            f"{value[:1000]}… [{len(value) - 1000} more characters]"
            if isinstance(value, str) and len(value) > 1000
            else "…"
        )
        too_much -= sizes[key] - 1000
    return msgspec.structs.replace(span, attributes=attributes, events=kept_events)


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(_size(inner) for inner in value)
    return 8
