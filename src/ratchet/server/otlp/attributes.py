"""Conversion of OTLP fields to Python values, for both encodings.

In protobuf each field has its type. In JSON ids are hexadecimal, bytes are base64, and numbers and
enums can be strings.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.observe.capture import shorten
from ratchet.server.otlp.limits import MAX_ATTRIBUTES, MAX_DEPTH, MAX_ITEMS, MAX_KEY, MAX_TEXT
from ratchet.server.otlp.messages import Message, Number
from ratchet.types.wording import counted

TOO_DEEP = "[nested too deeply]"
"""Replaces values nested deeper than `MAX_DEPTH`."""

_INT64 = 2**63
_SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def attributes_of(pairs: Sequence[Message] | None) -> dict[str, Any]:
    """Convert the first `MAX_ATTRIBUTES` of KeyValue messages."""
    if not pairs:
        return {}
    attributes: dict[str, Any] = {}
    for pair in pairs if len(pairs) <= MAX_ATTRIBUTES else pairs[:MAX_ATTRIBUTES]:
        value = pair.value
        # Most are strings, and reading one is faster than asking for the type first. `cut`
        # truncates them and notes it.
        attributes[pair.key] = None if value is None else value.string_value or _value(value, 0)
    return attributes


def id_of(value: bytes | str | None) -> bytes:
    """Convert an id; the result is not a valid id when the value is not hexadecimal."""
    if value.__class__ is bytes:
        return value
    try:
        return binascii.unhexlify(value or "")
    except ValueError:
        return b"?"


def number_of(value: Number) -> int:
    """Convert an unsigned 64-bit number; 0 when absent, -1 when unreadable."""
    if isinstance(value, int):
        return value
    if value is None:
        return 0
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    return -1


def enum_of(value: int | str | None, names: Mapping[str, int]) -> int:
    """Convert an enum to its number; 0 when absent or the name is unknown."""
    if isinstance(value, str):
        return names.get(value, 0)
    return value or 0


def cut(attributes: dict[str, Any], notes: list[str], beyond: int = 0) -> dict[str, Any]:
    """Truncate attributes to the limits.

    Args:
        attributes: Not modified.
        notes: Receives a description of what was truncated.
        beyond: Number of attributes already dropped.

    Returns:
        The same dictionary when nothing was truncated.
    """
    fine = len(attributes) <= MAX_ATTRIBUTES and not beyond
    if fine:
        for key, value in attributes.items():
            if len(key) > MAX_KEY or (value.__class__ is str and len(value) > MAX_TEXT):
                fine = False
                break
    if fine:
        return attributes
    bounded: dict[str, Any] = {}
    for key, value in attributes.items():
        if len(key) > MAX_KEY or len(bounded) == MAX_ATTRIBUTES:
            continue
        if value.__class__ is str and len(value) > MAX_TEXT:
            notes.append(f"{key}: {MAX_TEXT} of {counted(len(value), 'character')}")
            value = shorten(value, MAX_TEXT)
        bounded[key] = value
    dropped = len(attributes) - len(bounded) + beyond
    if dropped:
        notes.append(counted(dropped, "attribute"))
    return bounded


def _value(value: Message | None, depth: int) -> Any:
    kind = None if value is None else value.WhichOneof("value")
    if kind is None:
        return None
    content = getattr(value, kind)
    match kind:
        case "string_value":
            return shorten(content, MAX_TEXT) if depth else content
        case "int_value":
            return _int(content)
        case "double_value":
            return _double(content)
        case "bool_value":
            return content
        case "bytes_value":
            return _base64(content)
    if depth == MAX_DEPTH:
        return TOO_DEEP
    return _items(content.values or (), kind == "kvlist_value", depth + 1)


def _items(items: Sequence[Message], keyed: bool, depth: int) -> Any:
    beyond = len(items) - MAX_ITEMS
    more = f"[{counted(beyond, 'more item')}]"
    if keyed:
        pairs = {pair.key: _value(pair.value, depth) for pair in items[:MAX_ITEMS]}
        return {**pairs, "…": more} if beyond > 0 else pairs
    listed = [_value(message, depth) for message in items[:MAX_ITEMS]]
    return [*listed, more] if beyond > 0 else listed


def _int(value: int | float | str) -> Any:
    """A 64-bit integer; an unreadable string is kept, a larger integer becomes a string."""
    if isinstance(value, str):
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
            return value
        value = int(value)
    return value if isinstance(value, float) or -_INT64 <= value < _INT64 else str(value)


def _double(value: int | float | str) -> Any:
    """A float; an unreadable string is kept, an integer beyond 64 bits becomes a string."""
    if isinstance(value, float):
        return value
    if isinstance(value, str):
        if value in _SPECIAL:
            return _SPECIAL[value]
        try:
            return float(value[:64])
        except ValueError:
            return value
    return float(value) if -_INT64 <= value < _INT64 else str(value)


def _base64(value: bytes | str) -> str:
    """Standard base64; JSON may use the URL-safe alphabet or omit the padding."""
    if isinstance(value, str):
        standard = value.rstrip("=").replace("-", "+").replace("_", "/")
        try:
            plain = base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
        except ValueError:
            return value
    else:
        plain = value
    return base64.b64encode(plain).decode()
