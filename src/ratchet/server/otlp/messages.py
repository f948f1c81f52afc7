"""OTLP requests and responses in protobuf and JSON.

A request in JSON is decoded into structs with the fields of the protobuf messages, so that one
reader converts both. The JSON form is protobuf's JSON mapping with hexadecimal ids: 64-bit numbers
are strings or numbers, enums are numbers or names, null means an absent field, and unknown fields
are ignored. `attributes.py` converts numbers, ids and enums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ratchet.server.body import Content
from ratchet.server.otlp.limits import MAX_MESSAGES, MAX_SPANS, Malformed, TooMany
from ratchet.server.otlp.weighing import too_many

_LIGHT = 1024 * 1024
"""Protobuf bodies up to this many bytes are parsed without counting their messages first."""

Message: TypeAlias = Any
"""A protobuf message, or a struct with the same fields decoded from JSON."""

Number: TypeAlias = int | float | str | None


class _Struct(msgspec.Struct, rename="camel", gc=False):
    """A message in JSON; None is an absent field."""


class _ArrayValue(_Struct):
    values: list[_AnyValue] | None = None


class _KeyValueList(_Struct):
    values: list[_KeyValue] | None = None


class _AnyValue(_Struct):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Number = None
    double_value: Number = None
    array_value: _ArrayValue | None = None
    kvlist_value: _KeyValueList | None = None
    bytes_value: str | None = None

    def WhichOneof(self, _: str) -> str | None:  # noqa: N802 (a protobuf message's method)
        """Name of the field that is set, as in the protobuf message."""
        for name in self.__struct_fields__:
            if getattr(self, name) is not None:
                return name
        return None


class _KeyValue(_Struct):
    key: str = ""
    value: _AnyValue | None = None


class _Event(_Struct):
    time_unix_nano: Number = None
    name: str | None = None
    attributes: list[_KeyValue] | None = None


class _Link(_Struct):
    trace_id: str | None = None
    span_id: str | None = None
    attributes: list[_KeyValue] | None = None


class _Status(_Struct):
    code: int | str | None = None
    message: str | None = None


class _Span(_Struct):
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    name: str | None = None
    kind: int | str | None = None
    start_time_unix_nano: Number = None
    end_time_unix_nano: Number = None
    status: _Status | None = None
    attributes: list[_KeyValue] | None = None
    events: list[_Event] | None = None
    links: list[_Link] | None = None
    dropped_attributes_count: Number = None


class _Scope(_Struct):
    name: str | None = None
    version: str | None = None


class _ScopeSpans(_Struct):
    scope: _Scope | None = None
    spans: list[_Span] | None = None


class _Resource(_Struct):
    attributes: list[_KeyValue] | None = None


class _ResourceSpans(_Struct):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] | None = None


class _Request(_Struct):
    resource_spans: list[_ResourceSpans] | None = None


_json_decoder = msgspec.json.Decoder(_Request)


def decode_protobuf(body: Content) -> Message:
    """Decode an ExportTraceServiceRequest in protobuf.

    Raises:
        Malformed: The body cannot be decoded.
        TooMany: It exceeds `MAX_SPANS` or `MAX_MESSAGES`.
    """
    if len(body) > _LIGHT and too_many(body, MAX_MESSAGES):
        raise TooMany
    try:
        return _bounded(ExportTraceServiceRequest.FromString(body))
    except DecodeError:
        raise Malformed("The body is not an ExportTraceServiceRequest in protobuf.") from None


def decode_json(body: Content) -> Message:
    """Decode an ExportTraceServiceRequest in JSON.

    Raises:
        Malformed: The body cannot be decoded.
        TooMany: It exceeds `MAX_SPANS` or `MAX_MESSAGES`.
    """
    if body.count(b"{") > MAX_MESSAGES:
        raise TooMany
    try:
        return _bounded(_json_decoder.decode(body))
    except msgspec.ValidationError as error:
        raise Malformed(f"The body is not an ExportTraceServiceRequest: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"The body is not JSON: {error}.") from None
    except RecursionError:
        raise Malformed("The body is nested too deeply.") from None


def _bounded(request: Message) -> Message:
    spans = sum(
        len(scoped.spans or ())
        for resource in request.resource_spans or ()
        for scoped in resource.scope_spans or ()
    )
    if spans > MAX_SPANS:
        raise TooMany
    return request


def _success_protobuf(rejected: int, message: str) -> bytes:
    if not rejected:
        return b""
    partial = ExportTracePartialSuccess(rejected_spans=rejected, error_message=message)
    return bytes(ExportTraceServiceResponse(partial_success=partial).SerializeToString())


def _failure_protobuf(code: int, message: str) -> bytes:
    # google.rpc.Status has the same wire format: field 1 an integer, field 2 a string. Its own
    # package is not a dependency.
    status = ExportTracePartialSuccess(rejected_spans=code, error_message=message)
    return bytes(status.SerializeToString())


def _success_json(rejected: int, message: str) -> bytes:
    if not rejected:
        return b"{}"
    partial = {"rejectedSpans": str(rejected), "errorMessage": message}
    return msgspec.json.encode({"partialSuccess": partial})


def _failure_json(code: int, message: str) -> bytes:
    return msgspec.json.encode({"code": code, "message": message})


class OtlpEncoding(NamedTuple):
    """One encoding of requests and responses."""

    media_type: str
    decode: Callable[[Content], Message]
    """Request of a body."""
    success: Callable[[int, str], bytes]
    """Response body, from the number of rejected spans and the reasons."""
    failure: Callable[[int, str], bytes]
    """A google.rpc.Status, from its code and message."""


PROTOBUF = OtlpEncoding(
    "application/x-protobuf", decode_protobuf, _success_protobuf, _failure_protobuf
)
JSON = OtlpEncoding("application/json", decode_json, _success_json, _failure_json)

ENCODINGS = {encoding.media_type: encoding for encoding in (PROTOBUF, JSON)}
"""By media type."""
