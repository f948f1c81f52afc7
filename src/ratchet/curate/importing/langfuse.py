"""Importer for Langfuse: traces, observations, scores, and traces with nested observations.

Reads exports of its UI (CSV, JSON, JSON Lines), responses of its API, its blob storage exports, and
the files of a single trace or session.
Sources: langfuse/langfuse, worker/src/features/database-read-stream; the types of the package
langfuse 4 (`Trace`, `ObservationV2`, `Score`) and their predecessors in the API; its reference of
the fields in blob storage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.curate.importing.cell_values import structured
from ratchet.curate.importing.chat import call_attributes, value_attributes
from ratchet.curate.importing.records import (
    SOURCE_ATTRIBUTE,
    FormatMismatch,
    ImportContext,
    ImportedRecords,
    as_text,
    digest,
    integer,
    number,
    score_feedback,
    span_id_of,
    trace_id_of,
    unix_ns,
    without_empty,
)
from ratchet.observe.dialects import messages as form
from ratchet.observe.dialects import names
from ratchet.types import Feedback, Span, SpanRecord

NAME = "langfuse"

OPERATIONS = {
    "GENERATION": "chat",
    "AGENT": "invoke_agent",
    "TOOL": "execute_tool",
    "EMBEDDING": "embeddings",
    "RETRIEVER": "retrieval",
}
"""Operation by observation type. Other types are plain steps."""

_PARAMETERS = {
    "temperature": "gen_ai.request.temperature",
    "max_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "top_p": "gen_ai.request.top_p",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
}


_BLOB = {
    "trace_id": "traceId",
    "trace_name": "traceName",
    "observation_id": "observationId",
    "parent_observation_id": "parentObservationId",
    "session_id": "sessionId",
    "user_id": "userId",
    "start_time": "startTime",
    "end_time": "endTime",
    "completion_start_time": "completionStartTime",
    "status_message": "statusMessage",
    "provided_model_name": "providedModelName",
    "model_parameters": "modelParameters",
    "usage_details": "usageDetails",
    "cost_details": "costDetails",
    "total_cost": "totalCost",
    "prompt_name": "promptName",
    "prompt_version": "promptVersion",
    "data_type": "dataType",
    "string_value": "stringValue",
}
"""API names of the fields in blob storage."""


def _named(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Rename the fields of a blob storage row to the API's names."""
    if not any(key in value for key in ("project_id", "parent_observation_id", "bookmarked")):
        return value
    return {_BLOB.get(key, key): field for key, field in value.items()}


def _is_score(value: Mapping[str, Any]) -> bool:
    if "traceId" not in value or "startTime" in value or "name" not in value:
        return False
    return "value" in value and ("dataType" in value or "source" in value)


def matches(value: Any) -> bool:
    """Whether a value looks like a trace, an observation or a score of Langfuse."""
    if not isinstance(value, Mapping):
        return False
    if isinstance(value.get("trace"), Mapping):
        value = value["trace"]
    value = _named(value)
    if "id" not in value:
        return False
    if _is_score(value):
        return True
    is_observation = "traceId" in value and ("startTime" in value or "type" in value)
    has_user = "userId" in value or "sessionId" in value or "observations" in value
    return is_observation or ("timestamp" in value and has_user)


def read(value: Any, context: ImportContext) -> ImportedRecords:
    """Convert a trace with its observations, an observation, or a score.

    Raises:
        FormatMismatch: It has neither format.
    """
    if not isinstance(value, Mapping):
        raise FormatMismatch("it is not an object")
    if isinstance(value.get("trace"), Mapping):
        # The file of a single trace has its observations beside the trace.
        beside = {key: field for key, field in value.items() if key != "trace"}
        value = {**value["trace"], **beside}
    value = _named(value)
    if value.get("id") in (None, ""):
        raise FormatMismatch("it has no id")
    if _is_score(value):
        if not value["traceId"]:
            raise FormatMismatch("it is a score, but not of a trace")
        return ImportedRecords(feedback=_scores({"scores": [value]}, str(value["traceId"]), {}))
    if value.get("traceId"):
        record = _observation(value, str(value["traceId"]), {}, context)
        return ImportedRecords(
            spans=(record,), feedback=_scores(value, str(value["traceId"]), value)
        )
    return _trace(value, context)


def _trace(value: Mapping[str, Any], context: ImportContext) -> ImportedRecords:
    id = str(value["id"])
    skipped: list[str] = []
    shared = without_empty(
        {
            names.CONVERSATION: value.get("sessionId"),
            "user.id": value.get("userId"),
        }
    )
    below: list[SpanRecord] = []
    for observation in _list(value.get("observations")):
        if not isinstance(observation, Mapping):
            continue  # the API lists only ids
        try:
            below.append(_observation(observation, id, shared, context, value))
        except FormatMismatch as unfit:
            skipped.append(f"observation {observation.get('id')}: {unfit}")
    start = unix_ns(value.get("timestamp"))
    if start is None:
        if not below:
            raise FormatMismatch("it has no time: its timestamp is missing or invalid")
        start = min(record.span.start_ns for record in below)
    latency = number(value.get("latency")) or 0.0
    end = max([start + int(max(latency, 0.0) * 1e9), *(record.span.end_ns for record in below)])
    agent = context.agent_name(value.get("name"))
    level = value.get("level")
    span = Span(
        trace_id=trace_id_of(NAME, id),
        span_id=_root(id),
        name=str(value.get("name") or "trace"),
        start_ns=start,
        end_ns=end,
        status="error" if level == "ERROR" else "ok",
        attributes=without_empty(
            {
                **shared,
                SOURCE_ATTRIBUTE: NAME,
                names.OPERATION: "invoke_agent",
                names.AGENT_NAME: agent,
                **value_attributes(value.get("input"), value.get("output"), tool=False),
                **_more(value, ("metadata", "tags", "release", "version", "environment")),
            }
        ),
    )
    return ImportedRecords(
        spans=(SpanRecord(span=span, agent=agent), *below),
        feedback=_scores(value, id, {}),
        skipped=tuple(skipped),
    )


def _observation(
    value: Mapping[str, Any],
    trace: str,
    shared: Mapping[str, Any],
    context: ImportContext,
    of: Mapping[str, Any] | None = None,
) -> SpanRecord:
    if value.get("id") in (None, ""):
        raise FormatMismatch("it has no id")
    start = unix_ns(value.get("startTime"))
    if start is None:
        raise FormatMismatch("it has no time: its startTime is missing or invalid")
    end = unix_ns(value.get("endTime")) or start
    kind = str(value.get("type") or "SPAN").upper()
    operation = OPERATIONS.get(kind)
    inputs, outputs = form.decoded(value.get("input")), form.decoded(value.get("output"))
    parent = value.get("parentObservationId")
    model = value.get("model") or value.get("providedModelName")
    is_error = value.get("level") == "ERROR"
    # Rows with their trace's fields come without rows of traces.
    above = None if "traceName" in value and "project_id" in value else _root(trace)
    name = str(value.get("name") or kind.lower())
    attributes = {
        **shared,
        SOURCE_ATTRIBUTE: NAME,
        "langfuse.observation.type": kind,
        names.CONVERSATION: shared.get(names.CONVERSATION) or value.get("sessionId"),
        "user.id": shared.get("user.id") or value.get("userId"),
        names.OPERATION: operation,
        names.REQUEST_MODEL: model,
        names.TOOL_NAME: name if kind == "TOOL" else None,
        names.AGENT_NAME: name if kind == "AGENT" else None,
        **_usage(value),
        **_parameters(value),
        **_more(value, ("metadata", "version", "environment", "promptName", "promptVersion")),
    }
    if operation == "chat":
        attributes |= call_attributes(inputs, outputs)
    else:
        attributes |= value_attributes(inputs, outputs, tool=kind == "TOOL")
    first = unix_ns(value.get("completionStartTime"))
    if first is not None and first >= start:
        attributes["gen_ai.response.time_to_first_chunk"] = (first - start) / 1e9
    span = Span(
        trace_id=trace_id_of(NAME, trace),
        span_id=span_id_of(NAME, value["id"]),
        parent_id=span_id_of(NAME, parent) if parent else above,
        name=name,
        start_ns=start,
        end_ns=end,
        status="error" if is_error else "ok",
        message=str(value.get("statusMessage") or ""),
        attributes=without_empty(attributes),
    )
    agent = context.agent_name((of or {}).get("name"), value.get("traceName"))
    return SpanRecord(span=span, agent=agent)


def _root(trace: str) -> str:
    """Id of the span that represents the trace, whose own id is not a span id."""
    return digest(NAME, "root", trace)[:16]


def _list(value: Any) -> Sequence[Any]:
    parsed = structured(value)
    return parsed if isinstance(parsed, list) else ()


def _mapping(value: Any) -> Mapping[str, Any]:
    parsed = structured(value)
    return parsed if isinstance(parsed, Mapping) else {}


def _usage(value: Mapping[str, Any]) -> dict[str, Any]:
    details = _mapping(value.get("usageDetails"))
    usage = _mapping(value.get("usage"))

    def first(*counts: Any) -> int | None:
        return next((n for count in counts if (n := integer(count)) is not None), None)

    cost = number(value.get("totalCost", value.get("calculatedTotalCost")))
    if cost is None:
        cost = number(_mapping(value.get("costDetails")).get("total"))
    return {
        names.INPUT_TOKENS: first(
            value.get("inputUsage"), value.get("promptTokens"),
            usage.get("input"), usage.get("promptTokens"),
        ),
        names.OUTPUT_TOKENS: first(
            value.get("outputUsage"), value.get("completionTokens"),
            usage.get("output"), usage.get("completionTokens"),
        ),
        "ratchet.cost_usd": cost,
        **_buckets(details),
    }  # fmt: skip


def _buckets(details: Mapping[str, Any]) -> dict[str, int]:
    """Counts of `usageDetails`, whose keys exclude each other: `input` is what no other names.

    Keys are free; as Langfuse does, those that name input or output are counted as such.
    """
    counts = {key: n for key, stated in details.items() if (n := integer(stated)) is not None}
    total = counts.pop("total", None)
    tokens: dict[str, int] = {}
    for key, count in counts.items():
        attributes = []
        if "output" in key or "reasoning" in key:
            attributes = [names.OUTPUT_TOKENS]
            if "reasoning" in key:
                attributes.append(names.REASONING_TOKENS)
        elif "input" in key or "cache" in key:
            attributes = [names.INPUT_TOKENS]
            if "creation" in key or "write" in key:
                attributes.append(names.CACHE_WRITE_TOKENS)
                if "1h" in key:
                    attributes.append(names.CACHE_WRITE_1H_TOKENS)
            elif "cache" in key:
                attributes.append(names.CACHE_READ_TOKENS)
        for attribute in attributes:
            tokens[attribute] = tokens.get(attribute, 0) + count
    # An application that counts the details in `input` and `output` too says so by its total.
    sides = counts.get("input", 0) + counts.get("output", 0)
    if total == sides < sum(counts.values()):
        tokens |= {names.INPUT_TOKENS: counts.get("input", 0)}
        tokens |= {names.OUTPUT_TOKENS: counts.get("output", 0)}
    return tokens


def _parameters(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        _PARAMETERS[key]: number(parameter) if isinstance(parameter, str) else parameter
        for key, parameter in _mapping(value.get("modelParameters")).items()
        if key in _PARAMETERS and parameter is not None
    }


def _more(value: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Fields without a counterpart in the span model, under Langfuse's names."""
    return {
        f"langfuse.{key}": field if isinstance(field, (str, int, float)) else as_text(field)
        for key in keys
        if (field := value.get(key)) not in (None, "", [], {})
    }


def _scores(
    value: Mapping[str, Any], trace: str, observation: Mapping[str, Any]
) -> tuple[Feedback, ...]:
    feedback = []
    for raw_score in _list(value.get("scores")):
        if not isinstance(raw_score, Mapping) or not raw_score.get("name"):
            continue
        score = raw_score.get("value")
        if raw_score.get("dataType") == "BOOLEAN" and number(score) in (0.0, 1.0):
            score = bool(number(score))
        elif raw_score.get("dataType") == "CATEGORICAL" or score is None:
            score = raw_score.get("stringValue", score)
        about = raw_score.get("observationId") or observation.get("id")
        feedback.append(
            score_feedback(
                NAME,
                raw_score.get("id") or [trace, about, raw_score["name"], score],
                str(raw_score["name"]),
                score,
                comment=str(raw_score.get("comment") or ""),
                trace_id=trace_id_of(NAME, raw_score.get("traceId") or trace),
                span_id=span_id_of(NAME, about) if about else "",
                at=unix_ns(raw_score.get("timestamp")),
            )
        )
    return tuple(feedback)
