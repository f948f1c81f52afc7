"""Captures inputs and outputs as bounded JSON text; never raises and never changes them."""

from __future__ import annotations

import numbers
import re
from itertools import islice
from typing import Any

import msgspec

CAPTURE_LIMIT = 16_384
"""Maximum number of characters of one captured value."""

SPARE_DEPTH = 200
"""Levels of nesting, below the recursion limit, that stored data leaves to code that wraps it."""

MAX_ITEMS = 100_000
"""A larger array or table is captured as its `repr`, which is short."""

_DEPTH = 8
"""Depth to which huge parts of a value are cut before it is encoded."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def readable(text: str) -> str:
    """The text with lone surrogates, which cannot be encoded, replaced by U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def capture(value: Any, limit: int = CAPTURE_LIMIT) -> str:
    """JSON text of a value, cut to a limit; what JSON cannot represent becomes its `repr`."""
    try:
        text = _encode(_trimmed(value, limit, _DEPTH)).decode("utf-8", "replace")
    except Exception as error:  # the user's object may raise anything
        text = _last_resort(value, error)
    return shorten(text, limit)


def _trimmed(value: Any, limit: int, depth: int) -> Any:
    """The value, or a copy without the parts that cannot fit into `limit` characters.

    Otherwise an agent would wait while megabytes are encoded of which a page is kept.
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
            of = type(inner)
            # Most values are short texts, which are not worth a call.
            if of not in _SCALARS and (of is not str or len(inner) > 4 * limit):
                trimmed = _trimmed(inner, limit, depth - 1) if depth else inner
                if trimmed is not inner:
                    changed = changed or dict(value)
                    changed[key] = trimmed
        return changed or value
    if kind in _LISTS:
        if len(value) > limit:
            return [*islice(value, limit), f"… [{len(value) - limit} more items]"]
        if not depth or kind is set or kind is frozenset or _is_small(value):
            return value
        kept_items = None
        for number, inner in enumerate(value):
            of = type(inner)
            if of not in _SCALARS and (of is not str or len(inner) > 4 * limit):
                trimmed = _trimmed(inner, limit, depth - 1)
                if trimmed is not inner:
                    kept_items = kept_items or list(value)
                    kept_items[number] = trimmed
        return kept_items or value
    if depth and (names := _fields(kind)):
        # The encoder reads the fields itself, unless one of them is huge.
        inner = {name: getattr(value, name) for name in names if hasattr(value, name)}
        trimmed = _trimmed(inner, limit, depth - 1)
        return value if trimmed is inner else trimmed
    return value


def _fields(kind: Any) -> tuple[str, ...]:
    """Field names of a dataclass, msgspec struct or attrs class."""
    fields: Any = getattr(kind, "__dataclass_fields__", None)
    fields = fields or getattr(kind, "__struct_fields__", ())
    return tuple(fields) or tuple(
        attribute.name for attribute in getattr(kind, "__attrs_attrs__", ())
    )


def _is_small(value: Any) -> bool:
    """Whether a list or tuple holds numbers, judged by its first and last item."""
    return bool(value) and type(value[0]) in _SMALL and type(value[-1]) in _SMALL


_LISTS = frozenset({list, tuple, set, frozenset})
_SMALL = frozenset({int, float, bool})
_SCALARS = _SMALL | {type(None)}


def shorten(text: str, limit: int = CAPTURE_LIMIT) -> str:
    """A text cut to a limit, with the number of missing characters appended."""
    if len(text) > limit:
        text = f"{text[:limit]}… [{len(text) - limit} more characters]"
    return text


def plain(value: Any) -> Any:
    """A value as JSON data, for storage; what JSON cannot represent becomes its `repr`.

    So does a value nested almost as deep as Python's recursion limit: code that handles it later
    runs deeper in the stack and must not fail.
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
    except Exception as error:  # one bad object must not cost the others
        return _last_resort(value, error)


def _natural(value: Any) -> Any:
    # Subclasses of the plain types, such as NumPy's float64.
    for kind in (str, bool, int, float):
        if isinstance(value, kind):
            return str.__str__(value) if kind is str else kind(value)
    if _is_large(value):
        return readable(repr(value))
    # Looked up on the class: a proxy or a mock has any attribute, and to access one may be a remote
    # call.
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
    """Whether a value is a large array or table, by its own `size`."""
    if not hasattr(type(value), "size"):
        return False
    size = value.size
    if callable(size):  # PyTorch: `size` is a method, and `numel` the number
        size = value.numel() if hasattr(type(value), "numel") else 0
    return isinstance(size, numbers.Integral) and int(size) > MAX_ITEMS


def _last_resort(value: Any, error: Exception) -> str:
    try:
        return readable(repr(value))
    except Exception:  # a repr that raises leaves the type's name
        return f"<{_type_name(value)} that cannot be shown: {_type_name(error)}>"


def _type_name(value: Any) -> str:
    # Not `type(value).__name__`: a metaclass may make it raise.
    return str(type.__dict__["__name__"].__get__(type(value)))


def _bounded(value: Any) -> Any:
    """`_readable`, with parts that are too long cut."""
    return _trimmed(_readable(value), _LONGEST, _DEPTH)


_LONGEST = 131_072
"""The greatest limit of any value; see `decorators.LLM_LIMIT`."""

_encode = msgspec.json.Encoder(enc_hook=_bounded).encode
