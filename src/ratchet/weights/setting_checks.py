"""Checks of settings, whose errors name the field and what was expected."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from ratchet.types import ConfigError


def check_whole(settings: msgspec.Struct, **minimums: int) -> None:
    """Check that fields are whole numbers of at least a minimum.

    Raises:
        ConfigError: One does not.
    """
    for name, lowest in minimums.items():
        value = getattr(settings, name)
        if type(value) is not int or value < lowest:
            raise ConfigError(f"{name} is {value!r}; it must be a whole number, at least {lowest}.")


def check_positive(settings: msgspec.Struct, *names: str) -> None:
    """Check that fields are numbers above 0.

    Raises:
        ConfigError: One does not.
    """
    for name in names:
        value = getattr(settings, name)
        if not _number(value) or value <= 0.0:
            raise ConfigError(f"{name} is {value!r}; it must be a number above 0.")


def check_within(settings: msgspec.Struct, low: float, high: float, *names: str) -> None:
    """Check that fields are None or numbers between bounds.

    Raises:
        ConfigError: One does not.
    """
    for name in names:
        value = getattr(settings, name)
        if value is not None and not (_number(value) and low <= value <= high):
            bounds = f"at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
            raise ConfigError(f"{name} is {value!r}; it must be a number, {bounds}.")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def check_known(settings: msgspec.Struct, **choices: tuple[str, ...]) -> None:
    """Check that fields have allowed values.

    Raises:
        ConfigError: One does not.
    """
    allowed: Mapping[str, tuple[str, ...]] = choices
    for name, options in allowed.items():
        value = getattr(settings, name)
        if value not in options:
            raise ConfigError(f"{name} is {value!r}; it must be one of {', '.join(options)}.")
