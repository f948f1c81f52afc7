"""Knobs: domain and default value of a parameter."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from ratchet.types.errors import InputError

Value: TypeAlias = bool | int | float | str
"""Type of a knob's value."""


class Int(msgspec.Struct, frozen=True, tag="int"):
    """A whole number from `low` to `high`.

    Args:
        default: Starting value.
        low: Smallest value allowed.
        high: Largest value allowed.
        log: Search on a logarithmic scale (needs low >= 1).
    """

    default: int
    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        for field in ("default", "low", "high"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"Int({field}={value!r}) is not a whole number.")
        _check_bounds(self, 1)

    def check(self, name: str, value: Any) -> int:
        """Return `value` if it is allowed, else raise InputError naming the knob."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{name} = {value!r} is not a whole number.")
        return int(_within(self, name, value))


class Float(msgspec.Struct, frozen=True, tag="float"):
    """A number from `low` to `high`.

    Args:
        default: Starting value.
        low: Smallest value allowed.
        high: Largest value allowed.
        log: Search on a logarithmic scale (needs low > 0).
    """

    default: float
    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        for field in ("default", "low", "high"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise InputError(f"Float({field}={value!r}) is not a number.")
            if not _is_finite(value):
                raise InputError(f"Float({field}={value!r}) is not finite.")
            msgspec.structs.force_setattr(self, field, float(value))
        _check_bounds(self, 0)

    def check(self, name: str, value: Any) -> float:
        """Return `value` as a float if it is allowed, else raise InputError naming the knob."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputError(f"{name} = {value!r} is not a number.")
        return float(_within(self, name, value))


class Choice(msgspec.Struct, frozen=True, tag="choice"):
    """One of several values.

    Args:
        default: Starting value; one of `options`.
        options: The values allowed, at least one, all different.
    """

    default: Value
    options: tuple[Value, ...]

    def __post_init__(self) -> None:
        options: Any = self.options
        if isinstance(options, str) or not isinstance(options, Iterable):
            raise InputError(f"Choice(options={options!r}) is not a list of values.")
        msgspec.structs.force_setattr(self, "options", tuple(options))
        if not self.options:
            raise InputError("Choice needs at least one option.")
        for option in self.options:
            if not isinstance(option, (bool, int, float, str)):
                raise InputError(
                    f"Choice option {option!r} is neither a string, a number nor a boolean."
                )
            if isinstance(option, float) and not math.isfinite(option):
                raise InputError(f"Choice option {option!r} is not finite.")
        kinds = [(type(o), o) for o in self.options]
        if len(set(kinds)) != len(kinds):
            raise InputError(f"Choice options {list(self.options)!r} are not all different.")
        self.check("default", self.default)

    def check(self, name: str, value: Any) -> Value:
        """Return the option equal to `value`, else raise InputError naming the knob."""
        for option in self.options:
            if type(option) is type(value) and option == value:
                return option
        raise InputError(f"{name} = {value!r} is not one of {list(self.options)!r}.")


class Bool(msgspec.Struct, frozen=True, tag="bool"):
    """True or False.

    Args:
        default: Starting value.
    """

    default: bool

    def __post_init__(self) -> None:
        self.check("default", self.default)

    def check(self, name: str, value: Any) -> bool:
        """Return `value` if it is a Boolean, else raise InputError naming the knob."""
        if not isinstance(value, bool):
            raise InputError(f"{name} = {value!r} is not True or False.")
        return value


Knob: TypeAlias = Int | Float | Choice | Bool


def domain(knob: Knob) -> dict[str, Any]:
    """Return the knob without its default, which is not part of a space's identity."""
    builtins: dict[str, Any] = msgspec.to_builtins(knob)
    del builtins["default"]
    return builtins


def infer(name: str, value: Any) -> Knob:
    """Infer a knob from a bare default: `k=5` becomes Int(5, 1, 20), `on=True` becomes Bool.

    A float in [0, 1] ranges over [0, 1]; any other positive number from a quarter to four times
    itself, on a logarithmic scale.
    """
    if isinstance(value, (Int, Float, Choice, Bool)):
        return value
    if isinstance(value, bool):
        return Bool(value)
    if isinstance(value, float) and 0.0 <= value <= 1.0:
        return Float(value, 0.0, 1.0)
    if isinstance(value, float) and math.isfinite(value) and value > 1.0:
        return Float(value, value / 4, value * 4, log=True)
    if isinstance(value, int) and value > 0:
        return Int(value, max(1, value // 4), value * 4, log=True)
    raise InputError(
        f"No range can be guessed for {name} = {value!r}.",
        hint="Declare it as ratchet.Int, Float, Choice or Bool.",
    )


def _check_bounds(knob: Int | Float, log_floor: int) -> None:
    kind = type(knob).__name__
    if knob.low > knob.high:
        raise InputError(f"{kind}: low {knob.low} is above high {knob.high}.")
    if knob.log and (knob.low < log_floor or knob.low <= 0):
        raise InputError(f"{kind}: a logarithmic scale needs a positive low, not {knob.low}.")
    if not knob.low <= knob.default <= knob.high:
        raise InputError(f"{kind}: default {knob.default} is outside [{knob.low}, {knob.high}].")


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False


def _within(knob: Int | Float, name: str, value: Any) -> Any:
    if not knob.low <= value <= knob.high:  # also refuses NaN
        raise InputError(f"{name} = {value} is outside [{knob.low}, {knob.high}].")
    return value
