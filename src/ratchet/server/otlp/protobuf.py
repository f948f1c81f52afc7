"""OTLP in protobuf: from bytes to what a request holds."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ratchet.observe.capture import shorten
from ratchet.server.otlp.received import (
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    MAX_EVENTS,
    MAX_ITEMS,
    MAX_LINKS,
    MAX_MESSAGES,
    MAX_SPANS,
    MAX_TEXT,
    TOO_DEEP,
    Malformed,
    ReceivedEvent,
    ReceivedSpan,
    ReceivedSpans,
    TooMany,
    more,
)
from ratchet.server.otlp.weighing import too_many

_LIGHT = 1024 * 1024
"""Bytes of a body that may hold whatever it likes."""


def decode(body: bytes) -> list[ReceivedSpans]:
    """What a request holds.

    Raises:
        Malformed: The body is no ExportTraceServiceRequest.
        TooMany: It holds too much.
    """
    if len(body) > _LIGHT and too_many(body, MAX_MESSAGES):
        raise TooMany
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        raise Malformed("The body is no ExportTraceServiceRequest in protobuf.") from None
    full = [
        (resource, scope)
        for resource in request.resource_spans
        for scope in resource.scope_spans
        if scope.spans
    ]
    if sum(len(scope.spans) for _, scope in full) > MAX_SPANS:
        raise TooMany
    groups: list[ReceivedSpans] = []
    known: dict[str, Any] = {}
    last = None
    for resource, scope in full:
        if resource is not last:
            known, last = _attributes(resource.resource.attributes), resource
        spans = [_span(each) for each in scope.spans]
        groups.append(ReceivedSpans(known, scope.scope.name, scope.scope.version, spans))
    return groups


def success(rejected: int, message: str) -> bytes:
    """The answer to a request: how many of its spans were rejected, and why."""
    if not rejected and not message:
        return b""
    partial = ExportTracePartialSuccess(rejected_spans=rejected, error_message=message)
    return bytes(ExportTraceServiceResponse(partial_success=partial).SerializeToString())


def failure(code: int, message: str) -> bytes:
    """A google.rpc.Status, field by field: its package is not needed for anything else."""
    said = message.encode()
    return b"\x08" + _varint(code) + b"\x12" + _varint(len(said)) + said


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _span(span: Any) -> ReceivedSpan:
    status = span.status
    return ReceivedSpan(
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.name,
        span.kind,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        status.code,
        status.message,
        _attributes(span.attributes),
        [
            ReceivedEvent(event.name, event.time_unix_nano, _attributes(event.attributes))
            for event in span.events[:MAX_EVENTS]
        ]
        if span.events
        else [],
        [_link(link) for link in span.links[:MAX_LINKS]] if span.links else [],
        span.dropped_attributes_count,
        max(len(span.attributes) - MAX_ATTRIBUTES, 0),
        max(len(span.events) - MAX_EVENTS, 0),
    )


def _link(link: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"trace_id": link.trace_id.hex(), "span_id": link.span_id.hex()}
    if link.attributes:
        found["attributes"] = _attributes(link.attributes)
    return found


def _attributes(pairs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs if len(pairs) <= MAX_ATTRIBUTES else pairs[:MAX_ATTRIBUTES]:
        value = pair.value
        # Most are texts, and to ask for one costs less than to ask what it is.
        found[pair.key] = value.string_value or _value(value, 0)
    return found


def _value(value: Any, depth: int) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind in ("array_value", "kvlist_value"):
        items = getattr(value, kind).values
        return TOO_DEEP if depth == MAX_DEPTH else _items(items, kind == "kvlist_value", depth + 1)
    found = getattr(value, kind)
    if kind == "bytes_value":
        return base64.b64encode(found).decode()
    # One that is not inside of another is cut later, and that is noted.
    return shorten(found, MAX_TEXT) if depth and kind == "string_value" else found


def _items(items: Any, named: bool, depth: int) -> Any:
    beyond = len(items) - MAX_ITEMS
    if named:
        pairs = {pair.key: _value(pair.value, depth) for pair in items[:MAX_ITEMS]}
        return {**pairs, "…": more(beyond)} if beyond > 0 else pairs
    listed = [_value(each, depth) for each in items[:MAX_ITEMS]]
    return [*listed, more(beyond)] if beyond > 0 else listed
