"""Builds typed arguments from JSON data, with the constructors of the annotated types."""

from __future__ import annotations

import enum
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

PLAIN_TYPES = (object, str, int, float, bool, bytes, dict, list, type(None))
"""Types whose parameters take JSON data as it is."""


def annotated_types(function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    """The types of a function's parameters that cannot take JSON data as it is."""
    hints = _hints(function)
    if isinstance(function, type):
        hints = {**hints, **_hints(vars(function).get("__init__"))}
    types: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        kind = hints.get(name, parameter.annotation)
        if kind is not parameter.empty and not isinstance(kind, str) and not _takes_json(kind):
            types[name] = kind
    return types


def built(kind: Any, value: Any) -> Any:
    """A value of a type, from JSON data.

    A dict becomes an object by `model_validate`, or by a call with its items as keyword arguments;
    a text by `fromisoformat`, or by a call with it. Numbers, texts that it is not made of, and data
    for which the type says nothing, stay as they are.

    Raises:
        Exception: What the type's constructor raises.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _of_union(arguments, value)
    if isinstance(kind, typing.NewType):
        return built(kind.__supertype__, value)
    if hasattr(kind, "__value__"):  # type X = …
        return built(kind.__value__, value)
    if origin is not None:
        return _of_container(origin, arguments, value)
    if hasattr(kind, "__required_keys__"):  # a typed dict, also that of typing_extensions
        fields = _hints(kind)
        typed = isinstance(value, dict)
        return {n: built(fields.get(n, object), v) for n, v in value.items()} if typed else value
    if not isinstance(kind, type) or kind in PLAIN_TYPES or inspect.isabstract(kind):
        return value
    if value is None or typing.Protocol in kind.__bases__ or _is_of(kind, value):
        return value
    if issubclass(kind, enum.Enum):
        return kind(value)
    if isinstance(value, dict):
        return _of_fields(kind, value)
    if isinstance(value, str):
        try:
            read: Callable[[str], Any] = getattr(kind, "fromisoformat", kind)
            return read(value)
        except TypeError:  # it is not made of a text
            return value
    return _of_container(kind, (object, ...), value)


def _takes_json(kind: Any) -> bool:
    if kind in (*PLAIN_TYPES, Any) or get_origin(kind) is Literal or isinstance(kind, TypeVar):
        return True
    return get_origin(kind) is not None and all(_takes_json(part) for part in get_args(kind))


def _is_of(kind: Any, value: Any) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:  # of which there are no instances, such as a typed dict
        return False


def _of_union(kinds: tuple[Any, ...], value: Any) -> Any:
    if any(_is_of(kind, value) for kind in kinds):
        return value
    failure: Exception | None = None
    for kind in kinds:
        if kind in PLAIN_TYPES:
            continue
        try:
            return built(kind, value)
        except Exception as error:  # of a constructor that is not the right one
            failure = error
    if failure is not None:
        raise failure
    return value


def _of_container(origin: Any, arguments: tuple[Any, ...], value: Any) -> Any:
    if not isinstance(origin, type):
        return value
    if issubclass(origin, Mapping):
        if not isinstance(value, dict) or len(arguments) != 2:
            return value
        return {key: built(arguments[1], item) for key, item in value.items()}
    if not isinstance(value, list):
        return built(origin, value)  # a generic class
    if not issubclass(origin, Iterable):
        return value
    if issubclass(origin, tuple) and arguments[-1:] != (...,):
        items = [built(kind, item) for kind, item in zip(arguments, value, strict=True)]
    else:
        items = [built(arguments[0], item) for item in value]
    return origin(items) if origin in (tuple, set, frozenset) else items


def _of_fields(kind: Any, fields: dict[str, Any]) -> Any:
    kind = _tagged(kind, fields)
    validate = getattr(kind, "model_validate", None)
    if callable(validate):
        return validate(fields)
    hints = {**_hints(kind), **_hints(vars(kind).get("__init__"))}
    return kind(**{name: built(hints.get(name, object), item) for name, item in fields.items()})


def _tagged(kind: Any, fields: Mapping[str, Any]) -> Any:
    """The class, or its subclass, whose `Literal` fields match, such as a message's `type`."""
    for variant in (kind, *_subclasses(kind)):
        literals = {
            name: get_args(hint)
            for name, hint in _hints(variant).items()
            if name in fields and get_origin(hint) is Literal
        }
        if literals and all(fields[name] in values for name, values in literals.items()):
            return variant
    return kind


def _subclasses(kind: type) -> list[type]:
    direct: list[type] = kind.__subclasses__()
    return [descendant for child in direct for descendant in (child, *_subclasses(child))]


@functools.lru_cache(maxsize=1024)
def _hints(target: Any) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(target)
    except Exception:  # names that only a type checker knows, or an object without annotations
        return {}
