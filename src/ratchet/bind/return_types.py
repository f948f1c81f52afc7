"""Whether a value fits a type annotation, judged by inspecting the value."""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeVar, Union

_WIDER: dict[Any, tuple[type, ...]] = {
    float: (float, int),
    complex: (complex, float, int),
    bytes: (bytes, bytearray, memoryview),
}
"""Types that an annotation also allows (PEP 484)."""


def fits(value: Any, hint: Any) -> bool:
    """Whether a value fits an annotation.

    Of a collection the first item is looked at. What cannot be told fits.
    """
    if hint is None:
        return value is None
    if isinstance(hint, TypeVar):
        return fits(value, hint.__bound__ or Any)
    if isinstance(hint, typing.NewType):
        return fits(value, hint.__supertype__)
    origin, of = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return fits(value, of[0])
    if origin in (Union, types.UnionType):
        return any(fits(value, option) for option in of)
    if origin is Literal:
        return any(value == literal and type(value) is type(literal) for literal in of)
    if origin is type:
        return isinstance(value, type)
    if origin is collections.abc.Callable:
        return callable(value)
    if typing.is_typeddict(hint):
        return isinstance(value, dict) and hint.__required_keys__ <= value.keys()
    kind = origin or hint
    if not isinstance(kind, type) or kind is Any:
        return True
    try:
        if not isinstance(value, _WIDER.get(kind, kind)):
            return False
    except TypeError:  # a protocol that says nothing at run time
        return True
    return _items_fit(value, of)


def _items_fit(value: Any, of: tuple[Any, ...]) -> bool:
    """Whether the contents of a collection fit the arguments of its annotation."""
    if not of or not isinstance(value, Collection) or not value:
        return True
    if isinstance(value, tuple) and not (len(of) == 2 and of[1] is Ellipsis):
        return len(value) == len(of) and all(map(fits, value, of))
    if isinstance(value, Mapping):
        key, content = next(iter(value.items()))
        return fits(key, of[0]) and (len(of) < 2 or fits(content, of[1]))
    return fits(next(iter(value)), of[0])
