"""The arguments of a call by their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

ArgumentReader = Callable[[tuple[Any, ...], dict[str, Any]], Mapping[str, Any]]

_OWN = ("self", "cls")
_SIMPLE = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)


def argument_reader(function: Callable[..., Any]) -> ArgumentReader:
    """A function that maps a call's arguments to their names, without `self` and `cls`."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return _unnamed
    parameters = list(signature.parameters.values())
    names = tuple(parameter.name for parameter in parameters if parameter.kind in _SIMPLE)
    own = len([name for name in names[:1] if name in _OWN])
    if any(parameter.kind == inspect.Parameter.VAR_POSITIONAL for parameter in parameters) or any(
        name in _OWN for name in names[1:]
    ):
        return _bound(signature)
    positional = names[own:]

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if not args:
            return kwargs
        # Too many arguments: the call itself raises.
        arguments = dict(zip(positional, args[own:] if own else args, strict=False))
        if kwargs:
            arguments.update(kwargs)
        return arguments

    return read


def _bound(signature: inspect.Signature) -> ArgumentReader:
    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError:  # the call itself raises
            return _unnamed(args, kwargs)
        return {name: value for name, value in bound.items() if name not in _OWN}

    return read


def _unnamed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"args": args, "kwargs": kwargs}
