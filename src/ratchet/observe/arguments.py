"""Arguments of a call by the names of its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

Reader = Callable[[tuple[Any, ...], dict[str, Any]], Mapping[str, Any]]

_OWN = ("self", "cls")
_SIMPLE = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)


def reader(function: Callable[..., Any]) -> Reader:
    """What makes a mapping of a call's arguments, without those of `self` and `cls`."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some that are written in C have none
        return _unnamed
    parameters = list(signature.parameters.values())
    names = tuple(each.name for each in parameters if each.kind in _SIMPLE)
    own = len([name for name in names[:1] if name in _OWN])
    if any(each.kind == inspect.Parameter.VAR_POSITIONAL for each in parameters) or any(
        name in _OWN for name in names[1:]
    ):
        return _bound(signature)
    known = names[own:]

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if not args:
            return kwargs
        # More of them than there are parameters: the call itself will say so.
        given = dict(zip(known, args[own:] if own else args, strict=False))
        if kwargs:
            given.update(kwargs)
        return given

    return read


def _bound(signature: inspect.Signature) -> Reader:
    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError:  # the call itself will say what is wrong with its arguments
            return _unnamed(args, kwargs)
        return {name: value for name, value in bound.items() if name not in _OWN}

    return read


def _unnamed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"args": args, "kwargs": kwargs}
