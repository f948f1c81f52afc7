"""Formats: how each is known and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ratchet.curate.importing import conversations, langfuse, mlflow, phoenix, trajectories
from ratchet.curate.importing.records import ImportContext, ImportedRecords


class Format(NamedTuple):
    """One form of what people have."""

    matches: Callable[[Any], bool]
    """Whether a value looks like it."""
    read: Callable[[Any, ImportContext], ImportedRecords]
    """What is to be stored of a value; raises Unfit when it is none."""


def _is_anthropic(value: Any) -> bool:
    """Whether a conversation has what only Anthropic's API has."""
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
"""By name. A value that looks like several is the first of them."""


def format_of(value: Any, formats: Mapping[str, Format] = FORMATS) -> str | None:
    """The name of the format that a value looks like; None when it looks like none."""
    return next((name for name, format in formats.items() if format.matches(value)), None)
