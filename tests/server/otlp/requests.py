"""Requests as exporters send them, in both encodings."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

PROTOBUF, JSON = "application/x-protobuf", "application/json"

_numbers = itertools.count(1)


def any_value(value: Any) -> AnyValue:
    match value:
        case None:
            return AnyValue()
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case bytes():
            return AnyValue(bytes_value=value)
        case list():
            return AnyValue(array_value=ArrayValue(values=[any_value(each) for each in value]))
        case dict():
            return AnyValue(kvlist_value=KeyValueList(values=pairs(value)))
    return AnyValue(string_value=value)


def pairs(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def span(attributes: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Fields of a span that is like no other."""
    number = next(_numbers)
    return {
        "trace_id": number.to_bytes(16, "big"),
        "span_id": number.to_bytes(8, "big"),
        "name": f"step {number}",
        "start_time_unix_nano": 1_000 + number,
        "end_time_unix_nano": 2_000 + number,
        "attributes": pairs(attributes or {}),
        **fields,
    }


def request(*spans: dict[str, Any], **resource: Any) -> ExportTraceServiceRequest:
    """A request of spans from one process; `__` stands for a dot in the resource's names."""
    made = ExportTraceServiceRequest()
    group = made.resource_spans.add()
    group.resource.attributes.extend(
        pairs({key.replace("__", "."): value for key, value in resource.items()})
    )
    scope = group.scope_spans.add()
    scope.scope.name, scope.scope.version = "instrumentation", "1.2"
    for each in spans:
        scope.spans.add(**each)
    return made


def as_json(made: ExportTraceServiceRequest) -> bytes:
    """The request in OTLP's JSON: protobuf's mapping, but for ids in hexadecimal."""
    content = MessageToDict(made, use_integers_for_enums=True)
    for group in content.get("resourceSpans", ()):
        for scope in group["scopeSpans"]:
            for each in scope.get("spans", ()):
                for one in (each, *each.get("links", ())):
                    for key in ("traceId", "spanId", "parentSpanId"):
                        if key in one:
                            one[key] = base64.b64decode(one[key]).hex().upper()
    return json.dumps(content).encode()


def encoded(made: ExportTraceServiceRequest, media_type: str) -> bytes:
    return bytes(made.SerializeToString()) if media_type == PROTOBUF else as_json(made)


def rejected(content: bytes, media_type: str) -> tuple[int, str]:
    """How many spans an answer says were rejected, and why."""
    if media_type == PROTOBUF:
        partial = ExportTraceServiceResponse.FromString(content).partial_success
        return partial.rejected_spans, partial.error_message
    said = json.loads(content)
    assert said.keys() <= {"partialSuccess"}
    partial_json = said.get("partialSuccess", {})
    return int(partial_json.get("rejectedSpans", 0)), partial_json.get("errorMessage", "")


def status(content: bytes, media_type: str) -> tuple[int, str]:
    """Code and message of a google.rpc.Status."""
    if media_type == JSON:
        said = json.loads(content)
        return said["code"], said["message"]
    # Field 1, a number below 128, and field 2, a text.
    assert (content[0], content[2]) == (0x08, 0x12)
    length, at = content[3] & 0x7F, 4
    if content[3] & 0x80:
        length, at = length | content[4] << 7, 5
    assert len(content) == at + length
    return content[1], content[at:].decode()
