"""Importer for MLflow: traces of `Trace.to_json` and `mlflow.search_traces`, versions 2 and 3.

Source: output of the package mlflow 3; the form of version 2 is in its `Trace.from_dict`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from ratchet.curate.importing.cell_values import objects, structured
from ratchet.curate.importing.chat import call_attributes, value_attributes
from ratchet.curate.importing.records import (
    SOURCE_ATTRIBUTE,
    FormatMismatch,
    ImportContext,
    ImportedRecords,
    flattened,
    integer,
    score_feedback,
    span_id_of,
    trace_id_of,
    unix_ns,
    without_empty,
)
from ratchet.observe.dialects import messages as form
from ratchet.observe.dialects import names
from ratchet.types import Feedback, Span, SpanEvent, SpanRecord

NAME = "mlflow"

OPERATIONS = {
    "CHAT_MODEL": "chat",
    "LLM": "chat",
    "AGENT": "invoke_agent",
    "TOOL": "execute_tool",
    "EMBEDDING": "embeddings",
    "RETRIEVER": "retrieval",
}
"""Operation by span type. Other types are plain steps."""

_TAKEN = ("mlflow.spanInputs", "mlflow.spanOutputs", "mlflow.traceRequestId", "mlflow.spanLogLevel")


def matches(value: Any) -> bool:
    """Whether a value looks like an MLflow trace, or a row of a data frame of them."""
    if not isinstance(value, Mapping):
        return False
    info = value.get("info")
    if isinstance(info, Mapping) and isinstance(value.get("data"), Mapping):
        return "trace_id" in info or "request_id" in info
    return "trace_id" in value and ("trace" in value or "spans" in value)


def read(value: Any, context: ImportContext) -> ImportedRecords:
    """Convert a trace.

    Raises:
        FormatMismatch: It is not a trace.
    """
    if not isinstance(value, Mapping):
        raise FormatMismatch("it is not an object")
    whole_one = structured(value.get("trace"))
    if isinstance(whole_one, Mapping):
        value = whole_one
    elif "spans" in value and "info" not in value:
        value = {"info": value, "data": {"spans": structured(value["spans"])}}
    info, data = structured(value.get("info")), structured(value.get("data"))
    if not isinstance(info, Mapping) or not isinstance(data, Mapping):
        raise FormatMismatch("it has no info and data")
    id = info.get("trace_id") or info.get("request_id")
    if not id:
        raise FormatMismatch("it has no trace_id")
    metadata = {**_mapping(info.get("request_metadata")), **_mapping(info.get("trace_metadata"))}
    tags = _mapping(info.get("tags"))
    session = metadata.get("mlflow.trace.session")
    shared = without_empty(
        {
            SOURCE_ATTRIBUTE: NAME,
            names.CONVERSATION: session,
            "user.id": metadata.get("mlflow.trace.user"),
        }
    )
    agent = context.agent_name(tags.get("mlflow.traceName"))
    trace_id = trace_id_of(NAME, id)
    spans: list[SpanRecord] = []
    skipped: list[str] = []
    listed = structured(data.get("spans"))
    for position, raw_span in enumerate(listed if isinstance(listed, list) else (), start=1):
        try:
            span = _span(raw_span, trace_id, shared)
        except FormatMismatch as unfit:
            skipped.append(f"span {position}: {unfit}")
            continue
        spans.append(SpanRecord(span=span, agent=agent))
    if not spans:
        raise FormatMismatch(skipped[0] if skipped else "it has no spans")
    return ImportedRecords(
        spans=tuple(spans),
        feedback=_assessments(info, trace_id, session),
        skipped=tuple(skipped),
    )


def _span(value: Any, trace_id: str, shared: Mapping[str, Any]) -> Span:
    if not isinstance(value, Mapping):
        raise FormatMismatch("it is not an object")
    context = _mapping(value.get("context"))
    id = value.get("span_id") or context.get("span_id")
    if not id:
        raise FormatMismatch("it has no span_id")
    start = unix_ns(
        value.get("start_time_unix_nano", value.get("start_time", value.get("start_time_ns")))
    )
    if start is None:
        raise FormatMismatch("it has no time: its start is missing or invalid")
    end = unix_ns(value.get("end_time_unix_nano", value.get("end_time", value.get("end_time_ns"))))
    parent = value.get("parent_span_id", value.get("parent_id"))
    recorded = {
        key: form.decoded(attribute) for key, attribute in _mapping(value.get("attributes")).items()
    }
    kind = str(recorded.get("mlflow.spanType") or value.get("span_type") or "").upper()
    operation = OPERATIONS.get(kind)
    name = str(value.get("name") or "span")
    inputs = recorded.get("mlflow.spanInputs", value.get("inputs"))
    outputs = recorded.get("mlflow.spanOutputs", value.get("outputs"))
    usage = _mapping(recorded.get("mlflow.chat.tokenUsage"))
    attributes: dict[str, Any] = {
        **flattened({key: attribute for key, attribute in recorded.items() if key not in _TAKEN}),
        **shared,
        names.OPERATION: operation,
        names.TOOL_NAME: name if kind == "TOOL" else None,
        names.AGENT_NAME: name if kind == "AGENT" else None,
        names.INPUT_TOKENS: integer(usage.get("input_tokens")),
        names.OUTPUT_TOKENS: integer(usage.get("output_tokens")),
    }
    if operation == "chat":
        request = inputs if isinstance(inputs, Mapping) else {}
        model = recorded.get("mlflow.llm.model") or request.get("model")
        attributes[names.REQUEST_MODEL] = model if isinstance(model, str) else None
        attributes |= call_attributes(inputs, outputs)
    else:
        attributes |= value_attributes(inputs, outputs, tool=kind == "TOOL")
    status = value.get("status")
    code = str(_mapping(status).get("code") or value.get("status_code") or status or "")
    message = _mapping(status).get("message") or value.get("status_message") or ""
    return Span(
        trace_id=trace_id,
        span_id=span_id_of(NAME, _hex(id)),
        parent_id=span_id_of(NAME, _hex(parent)) if parent else None,
        name=name,
        start_ns=start,
        end_ns=end or start,
        status="error" if "ERROR" in code else "ok" if "OK" in code else "unset",
        message=str(message),
        attributes=without_empty(attributes),
        events=_events(value.get("events")),
    )


def _hex(id: Any) -> str:
    """An id in hexadecimal; version 3 encodes it in base64."""
    text = str(id)
    if text.endswith("="):
        try:
            return base64.b64decode(text, validate=True).hex()
        except (ValueError, binascii.Error):
            return text
    return text


def _mapping(value: Any) -> Mapping[str, Any]:
    parsed = structured(value)
    return parsed if isinstance(parsed, Mapping) else {}


def _events(value: Any) -> tuple[SpanEvent, ...]:
    events = []
    for event in objects(value):
        stamp = unix_ns(event.get("time_unix_nano", event.get("timestamp")))
        if event.get("name") and stamp is not None:
            events.append(
                SpanEvent(str(event["name"]), stamp, flattened(_mapping(event.get("attributes"))))
            )
    return tuple(events)


def _assessments(info: Mapping[str, Any], trace_id: str, session: Any) -> tuple[Feedback, ...]:
    feedback = []
    for assessment in objects(info.get("assessments")):
        score = _mapping(assessment.get("feedback"))
        name = assessment.get("assessment_name") or assessment.get("name")
        if not name or "value" not in score or assessment.get("valid") is False:
            continue
        about = assessment.get("span_id")
        feedback.append(
            score_feedback(
                NAME,
                assessment.get("assessment_id") or [trace_id, name],
                str(name),
                score["value"],
                comment=str(assessment.get("rationale") or ""),
                trace_id=trace_id,
                span_id=span_id_of(NAME, _hex(about)) if about else "",
                conversation_id=str(session)[:200] if session else "",
                at=unix_ns(assessment.get("create_time")),
            )
        )
    return tuple(feedback)
