"""Inputs and outputs as bounded JSON text, without ever raising or changing them."""

from __future__ import annotations

import re
from typing import Any

import msgspec

CAPTURE_LIMIT = 16_384
"""Characters kept of one captured value."""

SPARE_DEPTH = 200
"""How much deeper than stored data is nested the calls of those may be who handle it."""

MAX_ITEMS = 100_000
"""A larger array stands as its `repr`, which is short."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def readable(words: str) -> str:
    """The same text with U+FFFD in the place of lone surrogates, which no encoding can hold."""
    return words if words.isascii() else _SURROGATE.sub("\ufffd", words)


def capture(value: Any, limit: int = CAPTURE_LIMIT) -> str:
    """JSON text of a value; what JSON cannot hold stands as its `repr`, what is long is cut."""
    try:
        text = msgspec.json.encode(value, enc_hook=_readable).decode("utf-8", "replace")
    except Exception as error:  # the user's object, whatever it does, must not break the agent
        text = _last_resort(value, error)
    return shorten(text, limit)


def shorten(text: str, limit: int = CAPTURE_LIMIT) -> str:
    """A text cut to a limit, which then says what is missing."""
    if len(text) > limit:
        text = f"{text[:limit]}… [{len(text) - limit} more characters]"
    return text


def plain(value: Any) -> Any:
    """A value as JSON data, for storage; what JSON cannot hold becomes its `repr`.

    So does what is nested almost as deep as Python's recursion limit: those who pass it on stand
    deeper in their calls, and may not fail on it.
    """
    try:
        encoded = msgspec.json.encode(value, enc_hook=_readable)
        data = msgspec.json.decode(encoded)
        if encoded.count(b"[") + encoded.count(b"{") > SPARE_DEPTH:  # else it cannot be deep
            nested = data
            for _ in range(SPARE_DEPTH):
                nested = [nested]
            msgspec.json.encode(nested)
        return data
    except Exception as error:  # see capture
        return _last_resort(value, error)


def _readable(value: Any) -> Any:
    # Subclasses of the plain types (NumPy's float64 is one) are those types with more to them.
    for kind in (str, bool, int, float):
        if isinstance(value, kind):
            return str.__str__(value) if kind is str else kind(value)
    for method in ("model_dump", "to_dict", "_asdict"):
        dump = getattr(value, method, None)
        if callable(dump) and not isinstance(value, type):
            return dump()
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if callable(getattr(value, "tolist", None)) and getattr(value, "size", 0) <= MAX_ITEMS:
        return value.tolist()
    return readable(repr(value))


def _last_resort(value: Any, error: Exception) -> str:
    try:
        return readable(repr(value))
    except Exception:  # a repr that raises says nothing; its type still does
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
