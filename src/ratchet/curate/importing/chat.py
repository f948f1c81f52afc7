"""Normalises recorded inputs and outputs of model calls to chat messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.curate.importing.records import as_text
from ratchet.observe.dialects import messages as form
from ratchet.observe.dialects import names


def call_attributes(inputs: Any, outputs: Any) -> dict[str, Any]:
    """Span attributes of a model call's input and output, as messages if they can be parsed."""
    attributes: dict[str, Any] = {}
    sent = _listed(inputs, "user")
    if sent:
        attributes[names.INPUT_MESSAGES] = as_text(sent)
    elif inputs is not None:
        attributes[names.INPUT] = as_text(form.decoded(inputs))
    tools = inputs.get("tools") if isinstance(inputs, Mapping) else None
    if tools:
        attributes[names.TOOL_DEFINITIONS] = as_text(tools)
    answer = _answered(outputs)
    if answer:
        attributes[names.OUTPUT_MESSAGES] = as_text(answer)
        reasons = [message["finish_reason"] for message in answer if message.get("finish_reason")]
        if reasons:
            attributes[names.FINISH_REASONS] = reasons
    elif outputs is not None:
        attributes[names.OUTPUT] = as_text(form.decoded(outputs))
    return attributes


def value_attributes(inputs: Any, outputs: Any, *, tool: bool) -> dict[str, Any]:
    """Span attributes of another step's input and output."""
    keys = (names.TOOL_ARGUMENTS, names.TOOL_RESULT) if tool else (names.INPUT, names.OUTPUT)
    return {
        key: as_text(form.decoded(value))
        for key, value in zip(keys, (inputs, outputs), strict=True)
        if value is not None
    }


def _listed(value: Any, role: str) -> list[form.Message]:
    value = form.decoded(value)
    messages: Any = value
    system: list[Any] = []
    if isinstance(value, Mapping):
        if value.get("system"):
            system = [{"role": "system", "content": value["system"]}]
        messages = value.get("messages", value.get("input") if "model" in value else None)
        if messages is None and "role" in value:
            messages = [value]
    if not isinstance(messages, list) or not messages:
        return []
    # LangChain's callbacks record a list of lists.
    if isinstance(messages[0], list) and len(messages) == 1:
        messages = messages[0]
    if not all(
        isinstance(message, Mapping) and ("role" in message or "type" in message)
        for message in messages
    ):
        return []
    return [form.chat_message(_named(message), role) for message in (*system, *messages)]


_TYPES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


def _named(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert LangChain's `type` of a message to a role."""
    if "role" in message:
        return message
    return {**message, "role": _TYPES.get(str(message.get("type")), message.get("type"))}


def _answered(value: Any) -> list[form.Message]:
    value = form.decoded(value)
    if isinstance(value, str):
        return [form.message("assistant", "assistant", [form.text(value)])] if value else []
    if isinstance(value, Mapping):
        choices = value.get("choices")
        if isinstance(choices, list):
            messages = []
            for choice in choices:
                if isinstance(choice, Mapping) and isinstance(choice.get("message"), Mapping):
                    message = {"finish_reason": choice.get("finish_reason"), **choice["message"]}
                    messages.append(form.chat_message(message, "assistant"))
            return messages
        if value.get("role") == "assistant" or "tool_calls" in value:
            raw = {"finish_reason": value.get("stop_reason"), **value}
            return [form.chat_message(raw, "assistant")]
        return []
    return _listed(value, "assistant")
