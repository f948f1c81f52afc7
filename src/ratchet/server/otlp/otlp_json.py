"""OTLP in JSON: from bytes to what a request holds.

Protobuf's JSON mapping, but for ids, which are hexadecimal. 64-bit numbers come as texts or as
numbers, enums as numbers; their names are understood too. Unknown fields are ignored.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

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

Number = int | float | str | None

_INT64 = 2**63

_STATUSES = {"STATUS_CODE_UNSET": 0, "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}
_KINDS = {
    f"SPAN_KIND_{name}": number
    for number, name in enumerate(
        ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
    )
}
_SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class _Object(msgspec.Struct, rename="camel", gc=False):
    """A message; null stands for a field that is not there."""


class _Array(_Object):
    values: list[_Value] | None = None


class _Map(_Object):
    values: list[_Pair] | None = None


class _Value(_Object):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Number = None
    double_value: Number = None
    array_value: _Array | None = None
    kvlist_value: _Map | None = None
    bytes_value: str | None = None


class _Pair(_Object):
    key: str = ""
    value: _Value | None = None


class _Event(_Object):
    time_unix_nano: Number = None
    name: str | None = None
    attributes: list[_Pair] | None = None


class _Link(_Object):
    trace_id: str | None = None
    span_id: str | None = None
    attributes: list[_Pair] | None = None


class _Status(_Object):
    code: int | str | None = None
    message: str | None = None


class _Span(_Object):
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    name: str | None = None
    kind: int | str | None = None
    start_time_unix_nano: Number = None
    end_time_unix_nano: Number = None
    status: _Status | None = None
    attributes: list[_Pair] | None = None
    events: list[_Event] | None = None
    links: list[_Link] | None = None
    dropped_attributes_count: Number = None


class _Scope(_Object):
    name: str | None = None
    version: str | None = None


class _ScopeSpans(_Object):
    scope: _Scope | None = None
    spans: list[_Span] | None = None


class _Resource(_Object):
    attributes: list[_Pair] | None = None


class _ResourceSpans(_Object):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] | None = None


class _Request(_Object):
    resource_spans: list[_ResourceSpans] | None = None


_decoder = msgspec.json.Decoder(_Request)


def decode(body: bytes) -> list[ReceivedSpans]:
    """What a request holds.

    Raises:
        Malformed: The body is no ExportTraceServiceRequest.
        TooMany: It holds too much.
    """
    if body.count(b"{") > MAX_MESSAGES:
        raise TooMany
    try:
        request = _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Malformed(f"The body is no ExportTraceServiceRequest: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"The body is not JSON: {error}.") from None
    except RecursionError:
        raise Malformed("The body is nested too deeply.") from None
    full = [
        (resource, scoped, spans)
        for resource in request.resource_spans or ()
        for scoped in resource.scope_spans or ()
        if (spans := scoped.spans)
    ]
    if sum(len(spans) for _, _, spans in full) > MAX_SPANS:
        raise TooMany
    groups: list[ReceivedSpans] = []
    known: dict[str, Any] = {}
    last = None
    for resource, scoped, spans in full:
        if resource is not last:
            known, last = _attributes((resource.resource or _Resource()).attributes), resource
        scope = scoped.scope or _Scope()
        made = [_span(each) for each in spans]
        groups.append(ReceivedSpans(known, scope.name or "", scope.version or "", made))
    return groups


def success(rejected: int, message: str) -> bytes:
    """The answer to a request: how many of its spans were rejected, and why."""
    if not rejected and not message:
        return b"{}"
    partial = {"rejectedSpans": str(rejected), "errorMessage": message}
    return msgspec.json.encode({"partialSuccess": partial})


def failure(code: int, message: str) -> bytes:
    """A google.rpc.Status."""
    return msgspec.json.encode({"code": code, "message": message})


def _span(span: _Span) -> ReceivedSpan:
    status = span.status or _Status()
    return ReceivedSpan(
        _id(span.trace_id),
        _id(span.span_id),
        _id(span.parent_span_id),
        span.name or "",
        _enum(span.kind, _KINDS),
        _time(span.start_time_unix_nano),
        _time(span.end_time_unix_nano),
        _enum(status.code, _STATUSES),
        status.message or "",
        _attributes(span.attributes),
        [
            ReceivedEvent(
                event.name or "", _time(event.time_unix_nano), _attributes(event.attributes)
            )
            for event in (span.events or ())[:MAX_EVENTS]
        ],
        [_link(link) for link in (span.links or ())[:MAX_LINKS]],
        max(_time(span.dropped_attributes_count), 0),
        max(len(span.attributes or ()) - MAX_ATTRIBUTES, 0),
        max(len(span.events or ()) - MAX_EVENTS, 0),
    )


def _link(link: _Link) -> dict[str, Any]:
    found: dict[str, Any] = {
        "trace_id": _id(link.trace_id).hex(),
        "span_id": _id(link.span_id).hex(),
    }
    if link.attributes:
        found["attributes"] = _attributes(link.attributes)
    return found


def _id(text: str | None) -> bytes:
    """An id; what is not hexadecimal is no byte long, and so no id."""
    if not text:
        return b""
    try:
        return binascii.unhexlify(text)
    except ValueError:
        return b"?"


def _enum(value: int | str | None, names: dict[str, int]) -> int:
    if isinstance(value, str):
        return names.get(value, 0)
    return value or 0


def _time(value: Number) -> int:
    """A number of 64 bits; 0 when there is none, -1 when it is no number."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    return -1


def _attributes(pairs: list[_Pair] | None) -> dict[str, Any]:
    if not pairs:
        return {}
    return {
        pair.key: None
        if (value := pair.value) is None
        else value.string_value
        if value.string_value is not None
        else _value(value, 0)
        for pair in pairs[:MAX_ATTRIBUTES]
    }


def _value(value: _Value | None, depth: int) -> Any:
    if value is None:
        return None
    if value.string_value is not None:
        # One that is not inside of another is cut later, and that is noted.
        return shorten(value.string_value, MAX_TEXT) if depth else value.string_value
    if value.bool_value is not None:
        return value.bool_value
    if value.int_value is not None:
        return _int(value.int_value)
    if value.double_value is not None:
        return _double(value.double_value)
    if value.bytes_value is not None:
        return _bytes(value.bytes_value)
    if depth == MAX_DEPTH and (value.array_value or value.kvlist_value):
        return TOO_DEEP
    if value.array_value is not None:
        return _list(value.array_value.values or [], depth + 1)
    if value.kvlist_value is not None:
        return _dict(value.kvlist_value.values or [], depth + 1)
    return None


def _list(items: list[_Value], depth: int) -> list[Any]:
    listed = [_value(each, depth) for each in items[:MAX_ITEMS]]
    beyond = len(items) - MAX_ITEMS
    return [*listed, more(beyond)] if beyond > 0 else listed


def _dict(items: list[_Pair], depth: int) -> dict[str, Any]:
    pairs = {pair.key: _value(pair.value, depth) for pair in items[:MAX_ITEMS]}
    beyond = len(items) - MAX_ITEMS
    return {**pairs, "…": more(beyond)} if beyond > 0 else pairs


def _int(value: int | float | str) -> Any:
    """A number of 64 bits; anything else stays what it is."""
    if isinstance(value, str):
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
            return value
        value = int(value)
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        return str(value)
    return value


def _double(value: int | float | str) -> Any:
    if isinstance(value, str):
        if value in _SPECIAL:
            return _SPECIAL[value]
        try:
            return float(value[:64])
        except ValueError:
            return value
    return float(value) if -_INT64 <= value < _INT64 else str(value)


def _bytes(text: str) -> str:
    """Base64 as protobuf's other encoding gives it: padded, with + and /."""
    standard = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        plain = base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except ValueError:
        return text
    return base64.b64encode(plain).decode()
