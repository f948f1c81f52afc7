"""Registry of import formats: detection and reader of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ratchet.curate.importing import conversations, langfuse, mlflow, phoenix, trajectories
from ratchet.curate.importing.records import ImportContext, ImportedRecords


class Format(NamedTuple):
    """An import format."""

    matches: Callable[[Any], bool]
    """Whether a value looks like this format."""
    read: Callable[[Any, ImportContext], ImportedRecords]
    """Converts a value; raises FormatMismatch when it is not of this format."""


def _is_anthropic(value: Any) -> bool:
    """Whether a conversation has features of Anthropic's API only."""
    if not conversations.has_messages(value):
        return False
    if isinstance(value, Mapping) and value.get("system"):
        return True
    listed = value if isinstance(value, list) else value.get("messages") or ()
    return any(
        isinstance(part, Mapping) and part.get("type") in ("tool_use", "tool_result", "thinking")
        for message in listed
        if isinstance(message, Mapping) and isinstance(message.get("content"), list)
        for part in message["content"]
    )


def _read_openai(value: Any, context: ImportContext) -> ImportedRecords:
    return conversations.read(value, context, "openai")


def _read_anthropic(value: Any, context: ImportContext) -> ImportedRecords:
    return conversations.read(value, context, "anthropic")


FORMATS: dict[str, Format] = {
    langfuse.NAME: Format(langfuse.matches, langfuse.read),
    phoenix.NAME: Format(phoenix.matches, phoenix.read),
    mlflow.NAME: Format(mlflow.matches, mlflow.read),
    trajectories.SOURCE: Format(trajectories.matches, trajectories.read),
    "anthropic": Format(_is_anthropic, _read_anthropic),
    "openai": Format(conversations.has_messages, _read_openai),
}
"""Formats by name. A value that matches several is of the first."""


def format_of(value: Any, formats: Mapping[str, Format] = FORMATS) -> str | None:
    """Name of the first format that a value matches; None when there is none."""
    return next((name for name, format in formats.items() if format.matches(value)), None)
