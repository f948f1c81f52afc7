"""Splits the JSON text of a list into the texts of its items, and joins them again exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

SEPARATORS = (",", ", ")
"""Separators as compact encoders write them, and as Python's `json` does."""

_raw_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class JsonItems(NamedTuple):
    """The items of a JSON list, as they were written."""

    separator: str
    items: Sequence[bytes]
    """UTF-8."""


def split(text: str) -> JsonItems | None:
    """Split a JSON list; None if the text is not a list that `join` could restore."""
    if text[:1] != "[" or text[-1:] != "]":
        return None
    try:
        raw = text.encode()
        items = [bytes(item) for item in _raw_items(raw)]
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    for separator in SEPARATORS:
        if b"[" + separator.encode().join(items) + b"]" == raw:
            return JsonItems(separator, items)
    return None


def join(separator: str, items: Sequence[str]) -> str:
    """The JSON text of a list whose items are given as JSON text."""
    return f"[{separator.join(items)}]"
