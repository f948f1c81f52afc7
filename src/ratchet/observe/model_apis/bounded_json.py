"""Untrusted JSON, read safely and truncated to limits.

Bodies come from agents and upstreams, and may be anything: every function here accepts any value
and, except for `decoded`, never raises.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ratchet.observe.capture import readable, shorten

TEXT_LIMIT = 65_536
"""Maximum length of a text, in characters: a part of a message, or a tool's arguments."""

JSON_LIMIT = 262_144
"""Maximum size of an attribute that is JSON text, in bytes, such as all messages of a call."""

MAX_ITEMS = 1_000
"""Maximum number of messages, parts of a message, tools or choices that are read."""

MAX_TOKENS = 262_144
"""Maximum number of token ids or log-probabilities of a call."""

MAX_DEPTH = 1_000
"""Maximum number of objects and arrays in a value embedded as JSON in other JSON; a value with more
is embedded as text. Their number bounds the nesting depth, and JSON readers fail on deep nesting.
"""

NAME_LIMIT = 1_000
"""Maximum length of a name or an id, in characters."""

_FALLBACK_LIMIT = 1_048_576
_PENDING_LIMIT = 64_000

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def decoded(body: bytes | bytearray | str) -> Any:
    """Decode JSON.

    Also accepts what Python's json writes: NaN, infinity, and lone surrogates.

    Raises:
        ValueError: It is not JSON, or it is nested too deeply.
    """
    try:
        return _decode(body)
    except RecursionError:
        raise ValueError("It is nested too deeply.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if len(body) > _FALLBACK_LIMIT:
            raise ValueError(str(error)) from None
        try:
            return json.loads(body)
        except RecursionError:
            raise ValueError("It is nested too deeply.") from None
        except ValueError:
            raise ValueError(str(error)) from None


def encoded(value: Any) -> bytes:
    """JSON text of a decoded value; a placeholder if it cannot be encoded."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        try:
            return json.dumps(value, ensure_ascii=True).encode()
        except (RecursionError, ValueError, TypeError):
            return b'"[not readable]"'
    except (RecursionError, ValueError, TypeError):
        return b'"[nested too deeply]"'


def holds_json(text: str) -> bool:
    """Whether a text is JSON that may be embedded in other JSON."""
    try:
        _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return text.count("[") + text.count("{") <= MAX_DEPTH


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


_SNAKE = re.compile(r"(?<=[a-z])([A-Z])")


def either_case(value: Mapping[str, Any], field: str) -> Any:
    """A field by its JSON name, or by its name in snake case, which Gemini's API also accepts."""
    if field in value:
        return value[field]
    return value.get(_SNAKE.sub(r"_\1", field).lower())


def items(value: Any) -> list[Any]:
    """The value if it is an array, truncated to MAX_ITEMS, else an empty one."""
    if not isinstance(value, list):
        return []
    return value if len(value) <= MAX_ITEMS else value[:MAX_ITEMS]


def name(value: Any) -> str:
    """The value if it is a string, truncated, else an empty one."""
    if not isinstance(value, str):
        return ""
    return readable(value if len(value) <= NAME_LIMIT else value[:NAME_LIMIT])


def count(value: Any) -> int | None:
    """The value if it is a non-negative integer, else None."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
        return value
    return None


def number(value: Any) -> float | int | None:
    """The value if it is a finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int):
        return value if -(2**53) < value < 2**53 else None
    return value if math.isfinite(value) else None


class CutText(str):
    """A text that is already truncated, with a note at its end."""

    __slots__ = ("whole_size",)
    whole_size: int
    """Characters of the whole text."""


_NOTE = re.compile(r"… \[([0-9]{1,15}) more characters\]$")
"""End of a text that was truncated in another process."""


def size_of(text: Any) -> int:
    """Characters of a text, or those of the whole if it was truncated; 0 for anything else."""
    if type(text) is CutText:
        return text.whole_size
    if not isinstance(text, str):
        return 0
    note = _NOTE.search(text, max(0, len(text) - 50))
    return len(text) if note is None else note.start() + int(note[1])


def bounded_text(value: Any) -> str:
    """A truncated text; a value that is not a text is encoded as JSON."""
    if type(value) is CutText:
        return str.__str__(value)
    if not isinstance(value, str):
        value = encoded(value).decode()
    return readable(value if len(value) <= TEXT_LIMIT else shorten(value, TEXT_LIMIT))


class GrowingText:
    """A text that arrives in pieces; characters beyond the limit are counted but not stored."""

    __slots__ = ("_pieces", "_size", "_unmerged")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0
        self._unmerged = 0

    def add(self, piece: Any) -> None:
        """Append a piece; anything but a string is ignored."""
        if not isinstance(piece, str) or not piece:
            return
        left = TEXT_LIMIT - self._size
        if left > 0:
            self._pieces.append(piece if len(piece) <= left else piece[:left])
            self._unmerged += 1
            if self._unmerged > _PENDING_LIMIT:  # many tiny pieces take more memory than their text
                self._pieces = ["".join(self._pieces)]
                self._unmerged = 0
        self._size += len(piece)

    def __bool__(self) -> bool:
        return self._size > 0

    def text(self) -> str:
        """The text so far."""
        text = "".join(self._pieces)
        if self._size > TEXT_LIMIT:
            cut = CutText(f"{text}… [{self._size - TEXT_LIMIT} more characters]")
            cut.whole_size = self._size
            return cut
        return text

    def ends_with(self, endings: tuple[str, ...]) -> bool:
        """Whether its newest piece ends with this."""
        return bool(self._pieces) and self._pieces[-1].endswith(endings)


def bounded_value(value: Any) -> Any:
    """Any JSON value, for embedding in another; as truncated text if it is too long."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return bounded_text(value)
    text = encoded(value)
    if len(text) > TEXT_LIMIT or text.count(b"[") + text.count(b"{") > MAX_DEPTH:
        return shorten(text.decode("utf-8", "replace"), TEXT_LIMIT)
    return msgspec.Raw(text)


def omitted(missing: int) -> dict[str, Any]:
    """Placeholder for omitted entries."""
    return {"role": "omitted", "type": "omitted", "parts": [], "count": missing}


def json_text(entries: Sequence[dict[str, Any]], *, first: int = 1) -> str:
    """JSON text of a list of entries, truncated to its limit.

    Args:
        entries: The entries.
        first: When not all fit, number of leading entries to retain; the rest is filled from the
            end, with a placeholder between them.
    """
    text = encoded(entries)
    if len(text) <= JSON_LIMIT:
        return text.decode()
    encoded_entries = [encoded(entry) for entry in entries]
    head = (
        encoded_entries[:first] if sum(map(len, encoded_entries[:first])) < JSON_LIMIT // 2 else []
    )
    left = JSON_LIMIT - sum(map(len, head)) - 200
    tail: list[bytes] = []
    for entry in reversed(encoded_entries[len(head) :]):
        left -= len(entry) + 1
        if left < 0:
            break
        tail.append(entry)
    left_out = entries[len(head) : len(entries) - len(tail)]
    missing = sum(entry["count"] if entry.get("type") == "omitted" else 1 for entry in left_out)
    note = encoded(omitted(missing))
    return (b"[" + b",".join([*head, note, *reversed(tail)]) + b"]").decode()


def numbers(value: Any, kind: type) -> list[Any] | None:
    """The value if it is a list of integers, or of numbers, within MAX_TOKENS; else None."""
    if not isinstance(value, list) or len(value) > MAX_TOKENS:
        return None
    if kind is int:
        return (
            value
            if all(type(integer) is int and -(2**53) < integer < 2**53 for integer in value)
            else None
        )
    return [number(raw) for raw in value]
