"""Whether what a candidate's function returned fits the annotation of the source."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Any

_UNKNOWN: Any = object()


class WrongReturn(TypeError):
    """A candidate's function returned what the source's annotation does not allow."""


def check_return(function: Callable[..., Any], value: Any) -> None:
    """Compare a value with the return annotation of the source's own function.

    A collection is compared by its first item; what an annotation cannot be resolved to, or what
    the checker does not know, is let through: this finds mistakes, it proves nothing.

    Raises:
        WrongReturn: It does not fit.
    """
    hint = expected_return(function)
    if hint is _UNKNOWN:
        return
    from typeguard import ForwardRefPolicy, TypeCheckError, check_type

    try:
        check_type(value, hint, forward_ref_policy=ForwardRefPolicy.IGNORE)
    except TypeCheckError as error:
        name = getattr(function, "__name__", "the function")
        said = getattr(hint, "__name__", None) if isinstance(hint, type) else None
        raise WrongReturn(
            f"{name} returned {type(value).__name__} where its source promises"
            f" {said or hint}: {error}."
        ) from None


@functools.lru_cache(maxsize=256)
def expected_return(function: Callable[..., Any]) -> Any:
    """The type that a function's source promises; an object of no meaning when it says nothing."""
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # a name that only a type checker knows
        return _UNKNOWN
    hint = hints.get("return", _UNKNOWN)
    return _UNKNOWN if hint is Any else hint
