"""Registry of import formats: detection and reader of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ratchet.curate.importing import conversations, langfuse, mlflow, phoenix, trajectories
from ratchet.curate.importing.conversations import messages_key
from ratchet.curate.importing.records import ImportContext, ImportedRecords


class Format(NamedTuple):
    """An import format."""

    matches: Callable[[Any], bool]
    """Whether a value looks like this format."""
    read: Callable[[Any, ImportContext], ImportedRecords]
    """Converts a value; raises FormatMismatch when it is not of this format."""
    expects: str = ""
    """Contents of a value of this format, for users."""
    keys: frozenset[str] = frozenset()
    """Keys that values of this format have, to find the nearest format of others."""


def _is_anthropic(value: Any) -> bool:
    """Whether a conversation has features of Anthropic's API only."""
    if not conversations.has_messages(value):
        return False
    if isinstance(value, Mapping) and value.get("system"):
        return True
    listed = value if isinstance(value, list) else value.get(messages_key(value) or "") or ()
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


_A_LIST = "a list of messages, each with a role and content (--messages names its key)"

FORMATS: dict[str, Format] = {
    langfuse.NAME: Format(
        langfuse.matches,
        langfuse.read,
        "id, and either traceId with startTime or timestamp with userId, sessionId or observations",
        frozenset({"traceId", "startTime", "observations", "userId", "sessionId", "timestamp"}),
    ),
    phoenix.NAME: Format(
        phoenix.matches,
        phoenix.read,
        "start_time and a context with trace_id and span_id",
        frozenset({"start_time", "context", "context.span_id", "context.trace_id", "span_kind"}),
    ),
    mlflow.NAME: Format(
        mlflow.matches,
        mlflow.read,
        "either info with trace_id, and data; or trace_id and spans",
        frozenset({"info", "data", "trace", "trace_id", "request_id", "spans"}),
    ),
    trajectories.TRAJECTORIES_SOURCE: Format(
        trajectories.matches,
        trajectories.read,
        f"{_A_LIST} and a reward (--reward)",
        frozenset({"reward", "rewards", "score", "scores", "return", "trajectories"}),
    ),
    "anthropic": Format(_is_anthropic, _read_anthropic, _A_LIST, frozenset({"system"})),
    "openai": Format(
        conversations.has_messages,
        _read_openai,
        _A_LIST,
        frozenset({"messages", "conversations", "conversation", "prompt", "completion"}),
    ),
}
"""Formats by name. A value that matches several counts as the first."""


def format_of(value: Any, formats: Mapping[str, Format] = FORMATS) -> str | None:
    """Name of the first format that a value matches; None when there is none."""
    return next((name for name, format in formats.items() if format.matches(value)), None)


def nearest_format(value: Any, formats: Mapping[str, Format] = FORMATS) -> str | None:
    """Name of the format that shares the most keys with a value that matches none."""
    if not isinstance(value, Mapping):
        return None
    shared = {name: len(format.keys & value.keys()) for name, format in formats.items()}
    # With a reward it is a trajectory, whatever else is in it.
    best = max(
        shared,
        key=lambda name: (shared[name], name == trajectories.TRAJECTORIES_SOURCE),
        default=None,
    )
    return best if best is not None and shared[best] else None
