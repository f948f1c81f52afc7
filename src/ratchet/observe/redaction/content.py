"""Removes contents from spans: leaves structure, times and counts, no texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ratchet.observe.dialects.messages import objects
from ratchet.observe.dialects.names import INPUT_MESSAGES, OUTPUT_MESSAGES
from ratchet.types import Feedback, Span, SpanEvent, SpanRecord
from ratchet.types.trace import ARM, CANDIDATE, EXPERIMENT, GROUP, RELEASE, RESOURCES, UNIT

REMOVED = "ratchet.content.removed"
"""Attribute with the number of removed attributes."""

_KEPT = frozenset(
    {
        *("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.system", "gen_ai.request.model"),
        *("gen_ai.response.model", "gen_ai.response.id", "gen_ai.response.finish_reasons"),
        *("gen_ai.output.type", "gen_ai.token.type", "gen_ai.tool.name", "gen_ai.tool.type"),
        *("gen_ai.tool.call.id", "gen_ai.agent.name", "gen_ai.agent.id", "gen_ai.workflow.name"),
        *("gen_ai.conversation.id", "gen_ai.data_source.id", "gen_ai.request.encoding_formats"),
        *("session.id", "user.id", "error.type", "exception.type", "span.kind"),
        *("openinference.span.kind", "traceloop.span.kind", "traceloop.workflow.name"),
        *("traceloop.entity.name", "llm.system", "llm.provider", "llm.model_name"),
        *("llm.request.type", "llm.finish_reason", "tool.name", "tool.id"),
        *("embedding.model_name", "reranker.model_name", "server.address", "network.protocol.name"),
        *("http.request.method", "http.method", "http.route", "db.system", "db.system.name"),
        *("rpc.system", "rpc.service", "rpc.method", "ratchet.rollout.id", "ratchet.candidate"),
        *("ratchet.redaction", "ratchet.redaction.error", "ratchet.cut", "otel.scope.name"),
        *("otel.scope.version", "otel.links", "host.name", "container.id", "cloud.region"),
        *(CANDIDATE, EXPERIMENT, ARM, UNIT, GROUP, RESOURCES, RELEASE),
    }
)
_KEPT_BEGINNINGS = ("service.", "telemetry.", "deployment.", "code.", "k8s.", "ratchet.import.")

_LISTED = (INPUT_MESSAGES, OUTPUT_MESSAGES)
_SHAPE = frozenset({"type", "role", "id", "name", "finish_reason", "modality", "mime_type"})
_MOST_MESSAGES = 1_000


def record_without_content(record: SpanRecord) -> SpanRecord:
    """A record with its span's contents removed."""
    return msgspec.structs.replace(record, span=without_content(record.span))


def without_content(span: Span) -> Span:
    """A span without messages, inputs, outputs, arguments, results and texts of errors.

    What remains: name, times, status, numbers and flags, names of models, tools and agents, ids,
    and for messages the roles and the type and length of each part.
    """
    return msgspec.structs.replace(
        span,
        message="",
        attributes=_attributes(span.attributes),
        events=tuple(
            SpanEvent(event.name, event.time_ns, _attributes(event.attributes))
            for event in span.events
        ),
    )


def feedback_without_content(feedback: Feedback) -> Feedback:
    """Feedback without its comment and correction."""
    return msgspec.structs.replace(feedback, comment="", content=None)


def _attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    without_content: dict[str, Any] = {}
    removed = 0
    for key, value in attributes.items():
        if (
            isinstance(value, (bool, int, float))
            or value is None
            or key in _KEPT
            or key.startswith(_KEPT_BEGINNINGS)
        ):
            without_content[key] = value
        elif key in _LISTED:
            without_content[key] = _shape(value)
        else:
            removed += 1
    if removed:
        without_content[REMOVED] = removed + int(attributes.get(REMOVED) or 0)
    return without_content


def _shape(value: Any) -> str:
    """Messages as JSON text, with lengths in place of contents."""
    return msgspec.json.encode(
        [
            {
                "role": str(message.get("role", ""))[:50],
                "parts": [_part(part) for part in _parts(message)],
            }
            for message in objects(value)[:_MOST_MESSAGES]
        ]
    ).decode()


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    parts = message.get("parts")
    listed = parts if isinstance(parts, list) else []
    return [part for part in listed if isinstance(part, dict)][:_MOST_MESSAGES]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    shape: dict[str, Any] = {key: value for key, value in part.items() if key in _SHAPE}
    for key in ("content", "arguments", "response", "result"):
        value = part.get(key)
        if value is not None:
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            shape["characters"] = shape.get("characters", 0) + len(text)
    return shape | ({"characters": part["characters"]} if "characters" in part else {})
