"""`gen_ai.*`: OpenTelemetry's GenAI conventions, and the names of their older versions.

Sources: open-telemetry/semantic-conventions-genai, and the deprecated names and span events of
open-telemetry/semantic-conventions before 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.observe.dialects import messages as form
from ratchet.observe.dialects import names
from ratchet.types import SpanEvent

MARKERS = frozenset(
    {
        "gen_ai.system",
        names.OPERATION,
        names.PROVIDER,
        names.REQUEST_MODEL,
        names.TOOL_NAME,
        names.AGENT_NAME,
        names.INPUT_MESSAGES,
        names.OUTPUT_MESSAGES,
    }
)
"""Attributes that identify this dialect."""

RENAMED = {
    "gen_ai.usage.prompt_tokens": names.INPUT_TOKENS,
    "gen_ai.usage.completion_tokens": names.OUTPUT_TOKENS,
    "gen_ai.usage.reasoning_tokens": names.REASONING_TOKENS,
    "gen_ai.usage.cache_read_input_tokens": names.CACHE_READ_TOKENS,
    "gen_ai.usage.cache_creation_input_tokens": names.CACHE_WRITE_TOKENS,
    "gen_ai.usage.cache_write_input_tokens": names.CACHE_WRITE_TOKENS,  # Strands
    "gen_ai.usage.details.cache_read_tokens": names.CACHE_READ_TOKENS,
    "gen_ai.usage.details.cache_write_tokens": names.CACHE_WRITE_TOKENS,
    "gen_ai.usage.details.reasoning_tokens": names.REASONING_TOKENS,
    "gen_ai.openai.request.seed": "gen_ai.request.seed",
    "gen_ai.openai.request.response_format": "gen_ai.output.type",
    "gen_ai.is_streaming": "gen_ai.request.stream",
    "gen_ai.tool.arguments": names.TOOL_ARGUMENTS,
    "gen_ai.tool.result": names.TOOL_RESULT,
    "gen_ai.session.id": names.CONVERSATION,
}
"""Present names by older ones; of several older ones for the same name, the first wins."""

_DETAILS = "gen_ai.client.inference.operation.details"
"""Event with the attributes that other instrumentations set on the span."""

_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
"""Events with a request's messages, one message each."""


def read(name: str, attributes: Mapping[str, Any], events: Sequence[SpanEvent]) -> dict[str, Any]:
    """Attributes of the span model that this dialect provides.

    Args:
        name: The span's name.
        attributes: Its attributes.
        events: Its events.
    """
    normalised: dict[str, Any] = {}
    for old, normal in RENAMED.items():
        if old in attributes:
            normalised.setdefault(normal, attributes[old])
    if "gen_ai.system" in attributes:
        normalised[names.PROVIDER] = names.provider(attributes["gen_ai.system"])
    if "gen_ai.prompt" in attributes:
        normalised[names.INPUT_MESSAGES] = _listed(attributes["gen_ai.prompt"], "user")
    if "gen_ai.completion" in attributes:
        normalised[names.OUTPUT_MESSAGES] = _listed(attributes["gen_ai.completion"], "assistant")
    if events:
        _read_events(normalised, events)
    return normalised


def in_parts(text: str, role: str) -> str:
    """Messages as JSON text with parts, converted from the form of the chat APIs if needed.

    Args:
        text: JSON text of a list of messages; any other text is returned unchanged.
        role: Role of messages that have none.
    """
    if '"parts"' in text or not text.startswith("[{"):
        return text
    listed = form.objects(text)
    if not listed or not all("content" in message or "tool_calls" in message for message in listed):
        return text
    return form.json_text([form.chat_message(message, role) for message in listed])


def _read_events(normalised: dict[str, Any], events: Sequence[SpanEvent]) -> None:
    sent: list[form.Message] = []
    answered: list[form.Message] = []
    for event in events:
        kind = event.name
        if not kind.startswith("gen_ai."):
            continue
        if kind == _DETAILS:
            for key, value in event.attributes.items():
                if key.startswith("gen_ai.") and value is not None:
                    normalised.setdefault(key, value)
        elif kind in _ROLES:
            sent.append(form.chat_message(_body(event), _ROLES[kind]))
        elif kind == "gen_ai.choice":
            answered.append(_choice(_body(event)))
        elif kind == "gen_ai.content.prompt" and "gen_ai.prompt" in event.attributes:
            sent.extend(_messages(event.attributes["gen_ai.prompt"], "user"))
        elif kind == "gen_ai.content.completion" and "gen_ai.completion" in event.attributes:
            answered.extend(_messages(event.attributes["gen_ai.completion"], "assistant"))
    if sent:
        normalised.setdefault(names.INPUT_MESSAGES, form.json_text(sent))
    if answered:
        normalised.setdefault(names.OUTPUT_MESSAGES, form.json_text(answered))
        reasons = [message["finish_reason"] for message in answered if message.get("finish_reason")]
        if reasons:
            normalised.setdefault(names.FINISH_REASONS, reasons)


def _body(event: SpanEvent) -> dict[str, Any]:
    """Body of a message event: one attribute with JSON, or one attribute for each field."""
    content = form.decoded(event.attributes.get("gen_ai.event.content"))
    if isinstance(content, dict):
        return content
    if content is not None:
        return {"content": content}
    return {key.removeprefix("gen_ai."): value for key, value in event.attributes.items()}


def _choice(body: dict[str, Any]) -> form.Message:
    inner = form.decoded(body.get("message"))
    raw = inner if isinstance(inner, dict) else {**body, "content": body.get("content", inner)}
    message = form.chat_message(raw, "assistant")
    reason = body.get("finish_reason")
    return {**message, "finish_reason": form.as_text(reason)} if reason else message


def _listed(value: Any, role: str) -> str:
    return form.json_text(_messages(value, role))


def _messages(value: Any, role: str) -> list[form.Message]:
    """Messages of an attribute: a JSON list of messages, or the text of a single one."""
    listed = form.objects(value)
    if listed and all("role" in message or "content" in message for message in listed):
        return [form.chat_message(message, role) for message in listed]
    return [form.message(None, role, [form.text(value)])]
