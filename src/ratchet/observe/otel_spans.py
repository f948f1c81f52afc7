"""Converts finished spans of OpenTelemetry's SDK to Ratchet's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ratchet.observe.capture import capture, readable, shorten
from ratchet.types import Span, SpanEvent

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

MAX_TEXT = 262_144
"""Maximum number of characters of one attribute, enough for messages with their history."""

MAX_ATTRIBUTES = 2_000
"""Maximum number of attributes of one span; some dialects have several for each message."""

MAX_EVENTS = 500

CLOCK_NOTE = "ratchet.clock"
"""Attribute of a span whose reported times were corrected."""

_STATUS = {0: "unset", 1: "ok", 2: "error"}
_KINDS = {"SERVER": "server", "CLIENT": "client", "PRODUCER": "producer", "CONSUMER": "consumer"}


def from_otel(span: ReadableSpan) -> Span:
    """Convert a span."""
    own = span.get_span_context()
    assert own is not None
    attributes = _attributes(span.attributes)
    kind = _KINDS.get(span.kind.name)
    if kind:
        attributes.setdefault("span.kind", kind)
    if span.instrumentation_scope is not None and span.instrumentation_scope.name:
        attributes.setdefault("otel.scope.name", readable(span.instrumentation_scope.name))
    start_ns, end_ns = span.start_time or 0, span.end_time or 0
    if end_ns < start_ns:
        attributes[CLOCK_NOTE] = "the clock was set back: it ended before it started"
        end_ns = start_ns
    return Span(
        trace_id=f"{own.trace_id:032x}",
        span_id=f"{own.span_id:016x}",
        parent_id=f"{span.parent.span_id:016x}" if span.parent else None,
        name=shorten(readable(span.name), 1_000),
        start_ns=start_ns,
        end_ns=end_ns,
        status=_STATUS[span.status.status_code.value],  # type: ignore[arg-type]
        message=shorten(readable(span.status.description or "")),
        attributes=attributes,
        events=tuple(
            SpanEvent(
                shorten(readable(event.name), 1_000), event.timestamp, _attributes(event.attributes)
            )
            for event in span.events[:MAX_EVENTS]
        ),
    )


def _attributes(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    plain_attributes: dict[str, Any] = {}
    for key, value in (attributes or {}).items():
        if len(plain_attributes) >= MAX_ATTRIBUTES:
            plain_attributes["otel.dropped_attributes_count"] = (
                len(attributes or ()) - MAX_ATTRIBUTES
            )
            break
        plain_attributes[readable(key)] = _value(value)
    return plain_attributes


def _value(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return shorten(readable(value), MAX_TEXT)
    if kind is bool or kind is float:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**63 else str(value)
    if kind is tuple or kind is list:
        return [_value(member) for member in value[:MAX_ATTRIBUTES]]
    if isinstance(value, str):  # such as a member of an enumeration
        return shorten(readable(str.__str__(value)), MAX_TEXT)
    return capture(value, MAX_TEXT)


def warm_up() -> None:
    """Import OpenTelemetry now, so that no rollout's latency includes it."""
    from ratchet.observe import step_span  # noqa: F401
