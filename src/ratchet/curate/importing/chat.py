"""Normalises recorded inputs and outputs of model calls to chat messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.curate.importing.records import as_text
from ratchet.observe.dialects import messages as form
from ratchet.observe.dialects import names


def call_attributes(inputs: Any, outputs: Any) -> dict[str, Any]:
    """Span attributes of a model call's input and output, as messages if they can be parsed."""
    found: dict[str, Any] = {}
    sent = _listed(inputs, "user")
    if sent:
        found[names.INPUT_MESSAGES] = as_text(sent)
    elif inputs is not None:
        found[names.INPUT] = as_text(form.decoded(inputs))
    tools = inputs.get("tools") if isinstance(inputs, Mapping) else None
    if tools:
        found[names.TOOL_DEFINITIONS] = as_text(tools)
    answer = _answered(outputs)
    if answer:
        found[names.OUTPUT_MESSAGES] = as_text(answer)
        reasons = [each["finish_reason"] for each in answer if each.get("finish_reason")]
        if reasons:
            found[names.FINISH_REASONS] = reasons
    elif outputs is not None:
        found[names.OUTPUT] = as_text(form.decoded(outputs))
    return found


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
    found: Any = value
    system: list[Any] = []
    if isinstance(value, Mapping):
        if value.get("system"):
            system = [{"role": "system", "content": value["system"]}]
        found = value.get("messages", value.get("input") if "model" in value else None)
        if found is None and "role" in value:
            found = [value]
    if not isinstance(found, list) or not found:
        return []
    # LangChain's callbacks record a list of lists.
    if isinstance(found[0], list) and len(found) == 1:
        found = found[0]
    if not all(isinstance(each, Mapping) and ("role" in each or "type" in each) for each in found):
        return []
    return [form.chat_message(_named(each), role) for each in (*system, *found)]


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
