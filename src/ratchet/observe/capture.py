"""Inputs and outputs as bounded JSON text, without ever raising or changing them."""

from __future__ import annotations

import numbers
import re
from itertools import islice
from typing import Any

import msgspec

CAPTURE_LIMIT = 16_384
"""Characters kept of one captured value."""

SPARE_DEPTH = 200
"""How much deeper than stored data is nested the calls of those may be who handle it."""

MAX_ITEMS = 100_000
"""A larger array or table stands as its `repr`, which is short."""

_DEPTH = 8
"""How deep in a value is looked for what is huge before it is encoded."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def readable(text: str) -> str:
    """The same text with U+FFFD in the place of lone surrogates, which no encoding can hold."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def capture(value: Any, limit: int = CAPTURE_LIMIT) -> str:
    """JSON text of a value; what JSON cannot hold stands as its `repr`, what is long is cut."""
    try:
        text = _encode(_trimmed(value, limit, _DEPTH)).decode("utf-8", "replace")
    except Exception as error:  # the user's object, whatever it does, must not break the agent
        text = _last_resort(value, error)
    return shorten(text, limit)


def _trimmed(value: Any, limit: int, depth: int) -> Any:
    """The value, or a copy of it in which is cut what no text of `limit` characters can show.

    So that an agent does not wait while a hundred megabytes are encoded of which a page is kept.
    """
    kind = type(value)
    if kind is str:
        return value if len(value) <= 4 * limit else shorten(value, limit)
    if kind is bytes or kind is bytearray:
        return value if len(value) <= 4 * limit else f"<{kind.__name__} of {len(value)} bytes>"
    if kind is dict:
        if len(value) > limit:
            more = {"…": f"[{len(value) - limit} more items]"}
            return {**dict(islice(value.items(), limit)), **more}
        changed = None
        for key, inner in value.items():
            if type(inner) not in _SCALARS:
                kept = _trimmed(inner, limit, depth - 1) if depth else inner
                if kept is not inner:
                    changed = changed or dict(value)
                    changed[key] = kept
        return changed or value
    if kind in _LISTS:
        if len(value) > limit:
            return [*islice(value, limit), f"… [{len(value) - limit} more items]"]
        if not depth or kind is set or kind is frozenset or _is_small(value):
            return value
        kept_items = None
        for number, inner in enumerate(value):
            if type(inner) not in _SCALARS:
                kept = _trimmed(inner, limit, depth - 1)
                if kept is not inner:
                    kept_items = kept_items or list(value)
                    kept_items[number] = kept
        return kept_items or value
    if depth and (names := _fields(kind)):
        # The encoder reads these by itself; only where one is huge they are read here.
        inner = {name: getattr(value, name) for name in names if hasattr(value, name)}
        kept = _trimmed(inner, limit, depth - 1)
        return value if kept is inner else kept
    return value


def _fields(kind: Any) -> tuple[str, ...]:
    """Names of the fields of a dataclass, or of a class of msgspec's or attrs'."""
    named: Any = getattr(kind, "__dataclass_fields__", None)
    named = named or getattr(kind, "__struct_fields__", ())
    return tuple(named) or tuple(each.name for each in getattr(kind, "__attrs_attrs__", ()))


def _is_small(value: Any) -> bool:
    """Whether a list or tuple is one of numbers, by its two ends: of those there are long ones."""
    return bool(value) and type(value[0]) in _SMALL and type(value[-1]) in _SMALL


_LISTS = frozenset({list, tuple, set, frozenset})
_SMALL = frozenset({int, float, bool})
_SCALARS = _SMALL | {type(None)}


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
    try:
        return _natural(value)
    except Exception as error:  # one object among others that are fine
        return _last_resort(value, error)


def _natural(value: Any) -> Any:
    # Subclasses of the plain types (NumPy's float64 is one) are those types with more to them.
    for kind in (str, bool, int, float):
        if isinstance(value, kind):
            return str.__str__(value) if kind is str else kind(value)
    if _is_large(value):
        return readable(repr(value))
    # Asked of the class: an object that makes up its attributes, such as a proxy of something far
    # away or a mock, has each of these, and asking it may be a call that somebody pays for.
    kind = type(value)
    for method in ("model_dump", "to_dict", "_asdict"):
        if callable(getattr(kind, method, None)) and not isinstance(value, type):
            return getattr(value, method)()
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if callable(getattr(kind, "tolist", None)):
        return value.tolist()
    return readable(repr(value))


def _is_large(value: Any) -> bool:
    """Whether it is an array or a table of many numbers, by what such things say of themselves."""
    if not hasattr(type(value), "size"):
        return False
    size = value.size
    if callable(size):  # PyTorch has a method of that name, and this one beside it
        size = value.numel() if hasattr(type(value), "numel") else 0
    return isinstance(size, numbers.Integral) and int(size) > MAX_ITEMS


def _last_resort(value: Any, error: Exception) -> str:
    try:
        return readable(repr(value))
    except Exception:  # a repr that raises says nothing; its type still does
        return f"<{_type_name(value)} that cannot be shown: {_type_name(error)}>"


def _type_name(value: Any) -> str:
    # Not `type(value).__name__`, which a metaclass may make raise.
    return str(type.__dict__["__name__"].__get__(type(value)))


def _bounded(value: Any) -> Any:
    """The same as `_readable`, without what is too long to be shown."""
    return _trimmed(_readable(value), _LONGEST, _DEPTH)


_LONGEST = 131_072
"""The most that is kept of any value; see `decorators.LLM_LIMIT`."""

_encode = msgspec.json.Encoder(enc_hook=_bounded).encode
