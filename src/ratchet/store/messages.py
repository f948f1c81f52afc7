"""Parses messages in span attributes, which may be truncated or malformed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool"}


def messages_in(value: Any) -> tuple[list[dict[str, Any]], bool]:
    """Parse messages, each with a role and a list of parts that are objects.

    Returns:
        The messages, and whether some are missing because the attribute was truncated.
    """
    listed, cut = _listed(value)
    messages: list[dict[str, Any]] = []
    for raw in listed:
        if not isinstance(raw, dict) or ("role" not in raw and "parts" not in raw):
            continue
        role = raw.get("role")
        role = role if isinstance(role, str) and role else "user"
        parts = raw.get("parts", raw.get("content"))
        if not isinstance(parts, list):
            parts = [] if parts in (None, "") else [{"type": "text", "content": parts}]
        messages.append(
            {
                "role": _ROLES.get(role, role),
                "parts": [
                    part if isinstance(part, dict) else {"type": "text", "content": part}
                    for part in parts
                ],
            }
        )
    return messages, cut


def _listed(value: Any) -> tuple[list[Any], bool]:
    """Parse a list, possibly given as JSON text; return it and whether its end is missing."""
    if isinstance(value, dict):
        return [value], False
    if isinstance(value, (list, tuple)):
        return list(value), False
    if not isinstance(value, str) or not value.strip():
        return [], False
    try:
        decoded = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _beginning(value), True
    return _listed(decoded) if not isinstance(decoded, str) else ([], False)


def _beginning(text: str) -> list[Any]:
    """Parse the complete items of a truncated JSON list."""
    complete: list[Any] = []
    decoder = json.JSONDecoder()
    at = text.find("[") + 1
    while 0 < at < len(text):
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        try:
            member, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        complete.append(member)
    return complete


def instructions_in(value: Any) -> Iterator[str]:
    """System prompts in an attribute, which contains parts or whole messages."""
    for part in _listed(value)[0]:
        if isinstance(part, dict) and "role" not in part:
            yield from texts_of({"parts": [part]})
    for message in messages_in(value)[0]:
        yield from texts_of(message)


def texts_of(message: Mapping[str, Any]) -> Iterator[str]:
    """The text parts of a message."""
    for part in message["parts"]:
        if part.get("type") == "text" and isinstance(part.get("content"), str):
            yield part["content"]


def words_of(value: Any) -> str:
    """Format a captured value for display: plain text if it contains just one text."""
    if not isinstance(value, str):
        return "" if value is None else plain(value)
    try:
        decoded = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return value
    if isinstance(decoded, dict) and len(decoded) == 1:
        (decoded,) = decoded.values()
    return decoded if isinstance(decoded, str) else value


def plain(value: Any) -> str:
    """Normalise a value given as JSON, as JSON text, or as text with surrounding white space."""
    if isinstance(value, str):
        words = value.strip()
        if words[:1] not in ("{", "["):
            return words
        try:
            value = msgspec.json.decode(words)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return words
    try:
        return msgspec.json.encode(value, order="sorted").decode()
    except (TypeError, ValueError, RecursionError):
        return repr(value)
