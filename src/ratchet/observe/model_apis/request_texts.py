"""Texts of a request: found by path, and replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

LEADING = ("system", "developer")
"""Roles of messages that instruct the model."""

TextPath: TypeAlias = tuple[str | int, ...]
"""Keys and indices that lead to a text, such as ("messages", 0, "content")."""


class PromptTexts(NamedTuple):
    """Texts of a request that may hold prompts, each with its path."""

    system: list[tuple[TextPath, str]]
    """The instructions."""
    user: list[tuple[TextPath, str]]
    """From the first user message: the task, perhaps in a template of instructions."""

    @property
    def leading(self) -> list[tuple[TextPath, str]]:
        """The instructions; those in the first user message if there are no others."""
        return self.system if any(text for _, text in self.system) else self.user


def with_texts(request: dict[str, Any], texts: Mapping[TextPath, str]) -> dict[str, Any]:
    """Copy a request with new texts at some paths.

    Values beside the paths are shared with the original, which is not modified.

    Args:
        request: A decoded request.
        texts: New texts by path, with paths from `prompt_texts`.
    """
    changed = request
    for path, text in texts.items():
        changed = _replaced(changed, path, text)
    return changed


def texts_of(content: Any, path: TextPath, kinds: tuple[str, ...]) -> list[tuple[TextPath, str]]:
    """Texts of a message's content, which is a text or a list of parts.

    Args:
        content: The content.
        path: Path of the content.
        kinds: Types of parts that have a text.
    """
    if isinstance(content, str):
        return [(path, content)]
    if not isinstance(content, list):
        return []
    return [
        ((*path, position, "text"), part["text"])
        for position, part in enumerate(content)
        if isinstance(part, dict)
        and part.get("type") in kinds
        and isinstance(part.get("text"), str)
    ]


def texts_of_messages(messages: Any, key: str, kinds: tuple[str, ...]) -> PromptTexts:
    """Texts of system and developer messages, and of the first user message.

    Args:
        messages: The messages.
        key: Their key in the request.
        kinds: Types of parts that have a text.
    """
    system: list[tuple[TextPath, str]] = []
    user: list[tuple[TextPath, str]] | None = None
    for position, message in enumerate(messages if isinstance(messages, list) else ()):
        if not isinstance(message, dict):
            continue
        texts = texts_of(message.get("content"), (key, position, "content"), kinds)
        if message.get("role") in LEADING:
            system += texts
        elif message.get("role") == "user" and user is None:
            user = texts
    return PromptTexts(system, user or [])


def _replaced(value: Any, path: TextPath, text: str) -> Any:
    if not path:
        return text
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], text)
    return copy
