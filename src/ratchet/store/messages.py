"""Messages in attributes of spans, read without trust: they may have been cut or bent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool"}


def messages_in(value: Any) -> tuple[list[dict[str, Any]], bool]:
    """Messages in an attribute, each with a role and a list of parts that are objects.

    Returns:
        The messages, and whether some of them are missing since the attribute was cut.
    """
    found, cut = _listed(value)
    messages: list[dict[str, Any]] = []
    for raw in found:
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
    """What a list holds, be it JSON text, and whether its end is missing."""
    if isinstance(value, dict):
        return [value], False
    if isinstance(value, (list, tuple)):
        return list(value), False
    if not isinstance(value, str) or not value.strip():
        return [], False
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _beginning(value), True
    return _listed(found) if not isinstance(found, str) else ([], False)


def _beginning(text: str) -> list[Any]:
    """What stands whole in a JSON list whose end was cut off."""
    found: list[Any] = []
    decoder = json.JSONDecoder()
    at = text.find("[") + 1
    while 0 < at < len(text):
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        try:
            one, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        found.append(one)
    return found


def instructions_in(value: Any) -> Iterator[str]:
    """System prompts in an attribute, which holds parts or whole messages."""
    for part in _listed(value)[0]:
        if isinstance(part, dict) and "role" not in part:
            yield from texts_of({"parts": [part]})
    for message in messages_in(value)[0]:
        yield from texts_of(message)


def texts_of(message: Mapping[str, Any]) -> Iterator[str]:
    """The texts among the parts of a message."""
    for part in message["parts"]:
        if part.get("type") == "text" and isinstance(part.get("content"), str):
            yield part["content"]


def words_of(value: Any) -> str:
    """What was captured of a value, for people: the text alone where there is just one."""
    if not isinstance(value, str):
        return "" if value is None else plain(value)
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return value
    if isinstance(found, dict) and len(found) == 1:
        (found,) = found.values()
    return found if isinstance(found, str) else value


def plain(value: Any) -> str:
    """A value in one form, be it JSON, the text of JSON, or words with space around them."""
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
