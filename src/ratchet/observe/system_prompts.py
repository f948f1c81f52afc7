"""System prompts in the attributes of recorded spans."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_LEADING = ("system", "developer")

_CUT = re.compile(r"… \[\d+ more characters\]\Z")
"""End of a text that `capture.shorten` has cut."""


def is_model_call(attributes: Mapping[str, Any]) -> bool:
    """Whether a span is a model call: it says what was asked, or which model."""
    return "gen_ai.input.messages" in attributes or "gen_ai.request.model" in attributes


def system_prompts(attributes: Mapping[str, Any]) -> list[str]:
    """The system prompts of a model call, unchanged.

    Args:
        attributes: Attributes of the call's span, by OpenTelemetry's GenAI conventions; untrusted,
            so anything may be missing or malformed.
    """
    return [text for role, text in sent_texts(attributes) if role == "system"]


def leading_user_texts(attributes: Mapping[str, Any]) -> list[str]:
    """The texts of the first user message of a model call, unchanged.

    Args:
        attributes: As for `system_prompts`.
    """
    for message in entries(attributes.get("gen_ai.input.messages")):
        if message.get("role") == "user":
            return list(texts_of(message))
    return []


def sent_texts(attributes: Mapping[str, Any]) -> list[tuple[str, str]]:
    """All texts of a model call in order, each with its role.

    Args:
        attributes: As for `system_prompts`.
    """
    instructions = {"parts": attributes.get("gen_ai.system_instructions")}
    texts = [("system", text) for text in texts_of(instructions)]
    # In a text completion the prompt itself is the instructions.
    is_completion = attributes.get("gen_ai.operation.name") == "text_completion"
    for message in entries(attributes.get("gen_ai.input.messages")):
        role = message.get("role")
        role = "system" if is_completion or role in _LEADING else str(role)
        texts += [(role, text) for text in texts_of(message)]
    return texts


def was_cut(text: str) -> bool:
    """Whether a recorded text is only the beginning of what was sent."""
    return _CUT.search(text) is not None


def texts_of(message: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a message."""
    for part in entries(message.get("parts")):
        content = part.get("content")
        if part.get("type") == "text" and isinstance(content, str):
            yield content


def entries(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of a list, which may be JSON text; none if it is malformed."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return
    if isinstance(value, list):
        yield from (entry for entry in value if isinstance(entry, dict))
