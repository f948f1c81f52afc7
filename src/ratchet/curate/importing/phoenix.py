"""Importer for Phoenix: spans exported by its API and UI, and rows of its data frames.

Source: the types of the package arize-phoenix-client 2 (`Span`, `SpansResponseBody`) and its data
frames, with columns such as `context.trace_id` and `attributes.…`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from ratchet.curate.importing.cell_values import objects, structured
from ratchet.curate.importing.records import (
    SOURCE_ATTRIBUTE,
    FormatMismatch,
    ImportContext,
    ImportedRecords,
    as_text,
    flattened,
    number,
    score_feedback,
    span_id_of,
    trace_id_of,
    unix_ns,
    without_empty,
)
from ratchet.observe.dialects import names, normalise
from ratchet.types import Span, SpanEvent, SpanRecord

NAME = "phoenix"

MAX_DEPTH = 64
"""Parts of an attribute's name; what is deeper stays an object."""

_TEXTS = re.compile(r"(?:^|\.)(?:(?:input|output)\.value|content|text)$")
"""Attributes of OpenInference that are texts, even where a text is JSON."""

_JSON = re.compile(
    r"(?:^|\.)(?:tool\.(?:parameters|json_schema)|metadata|tool_call\.function\.arguments"
    r"|message\.function_call_arguments_json|llm\.(?:invocation_parameters|function_call)"
    r"|embedding\.invocation_parameters|prompt_template\.variables)$"
)
"""Its attributes that are texts of JSON, some of which Phoenix shows as objects.
Source: the package openinference-semantic-conventions 0.1."""

_NUMBERS = re.compile(r"(?:^|\.)(?:token_count|cost)\.|\.score$")

_STATUSES: dict[str, Literal["unset", "ok", "error"]] = {
    "OK": "ok",
    "ERROR": "error",
    "UNSET": "unset",
}


def matches(value: Any) -> bool:
    """Whether a value looks like a Phoenix span."""
    if not isinstance(value, Mapping) or "start_time" not in value:
        return False
    return isinstance(value.get("context"), Mapping) or "context.span_id" in value


def read(value: Any, context: ImportContext) -> ImportedRecords:
    """Convert a span.

    Raises:
        FormatMismatch: It is not a span.
    """
    if not isinstance(value, Mapping):
        raise FormatMismatch("it is not an object")
    ids = structured(value.get("context"))
    if not isinstance(ids, Mapping):
        ids = {
            "trace_id": value.get("context.trace_id"),
            "span_id": value.get("context.span_id"),
        }
    if not ids.get("trace_id") or not ids.get("span_id"):
        raise FormatMismatch("it has no context with a trace_id and a span_id")
    start = unix_ns(value.get("start_time"))
    if start is None:
        raise FormatMismatch("it has no time: its start_time is missing or invalid")
    end = unix_ns(value.get("end_time")) or start
    name = str(value.get("name") or "span")
    attributes = _attributes(value)
    events = _events(value.get("events"))
    kind = value.get("span_kind")
    if isinstance(kind, str) and kind not in ("", "UNKNOWN"):
        attributes.setdefault("openinference.span.kind", kind.upper())
    attributes = normalise(name, attributes, events)
    if "session.id" in attributes:
        attributes = {names.CONVERSATION: attributes["session.id"], **attributes}
    parent = value.get("parent_id")
    trace_id = trace_id_of(NAME, ids["trace_id"])
    span_id = span_id_of(NAME, ids["span_id"])
    span = Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=span_id_of(NAME, parent) if parent else None,
        name=name,
        start_ns=start,
        end_ns=end,
        status=_STATUSES.get(str(value.get("status_code") or "").upper(), "unset"),
        message=str(value.get("status_message") or ""),
        attributes={SOURCE_ATTRIBUTE: NAME, **attributes},
        events=events,
    )
    agent = context.agent_name(attributes.get(names.AGENT_NAME))
    feedback = tuple(
        score_feedback(
            NAME,
            annotation.get("id") or [span_id, annotation["name"]],
            str(annotation["name"]),
            result.get("score") if result.get("score") is not None else result.get("label"),
            comment=str(result.get("explanation") or result.get("label") or ""),
            trace_id=trace_id,
            span_id=span_id,
            at=unix_ns(annotation.get("updated_at")),
        )
        for annotation in objects(value.get("span_annotations", value.get("annotations")))
        if annotation.get("name")
        and isinstance(result := annotation.get("result", annotation), Mapping)
    )
    return ImportedRecords(spans=(SpanRecord(span=span, agent=agent),), feedback=feedback)


def _attributes(value: Mapping[str, Any]) -> dict[str, Any]:
    """Flat attributes, as a span of OpenInference has them.

    A data frame has a column for each, or for the objects that some of them make up.
    """
    recorded = structured(value.get("attributes"))
    columns = {
        key.removeprefix("attributes."): column
        for key, column in value.items()
        if key.startswith("attributes.") and column is not None
    }
    nested = recorded if isinstance(recorded, Mapping) else {}
    return without_empty({**_flat(nested, ""), **_flat(columns, "")})


def _flat(value: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Flattened attributes, in which those that are JSON texts stay whole."""
    flat: dict[str, Any] = {}
    for key, attribute in value.items():
        name = f"{prefix}{key}"
        parsed = attribute if _TEXTS.search(name) else structured(attribute)
        if _TEXTS.search(name) or _JSON.search(name):
            flat[name] = (
                attribute if parsed is attribute and isinstance(attribute, str) else as_text(parsed)
            )
            continue
        if isinstance(parsed, list) and any(isinstance(item, Mapping) for item in parsed):
            parsed = {str(position): item for position, item in enumerate(parsed)}
        if isinstance(parsed, Mapping) and parsed and name.count(".") < MAX_DEPTH:
            flat |= _flat(parsed, f"{name}.")
        elif isinstance(parsed, str) and _NUMBERS.search(name):
            size = number(parsed)  # pandas writes whole numbers as 12.0 where some are missing
            flat[name] = int(size) if size is not None and size.is_integer() else size
        elif parsed is not None:
            flat[name] = parsed
    return flat


def _events(value: Any) -> tuple[SpanEvent, ...]:
    events = []
    for event in objects(value):
        stamp = unix_ns(event.get("timestamp"))
        attributes = event.get("attributes")
        if event.get("name") and stamp is not None:
            inner = flattened(attributes) if isinstance(attributes, Mapping) else {}
            events.append(SpanEvent(str(event["name"]), stamp, inner))
    return tuple(events)
