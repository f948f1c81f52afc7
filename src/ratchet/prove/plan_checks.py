"""Checks of the numbers in a plan; their errors name the field."""

from __future__ import annotations

from math import isfinite

import msgspec

from ratchet.types import InputError


def check_numbers(plan: msgspec.Struct, low: float, high: float, *fields: str) -> None:
    """Make each field a float, from `low` to `high`.

    Raises:
        InputError: A value is not a number or out of range.
    """
    for field in fields:
        value = getattr(plan, field)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
            raise InputError(f"{_name(plan)}: {field} = {value!r} is not a number.")
        if not low <= value <= high:
            raise InputError(
                f"{_name(plan)}: {field} = {value!r} is not within {low:g} and {high:g}."
            )
        msgspec.structs.force_setattr(plan, field, float(value))


def check_counts(plan: msgspec.Struct, low: int, high: int, *fields: str) -> None:
    """Check that each field is a whole number from `low` to `high`.

    Raises:
        InputError: A value is not a whole number or out of range.
    """
    for field in fields:
        value = getattr(plan, field)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{_name(plan)}: {field} = {value!r} is not a whole number.")
        if not low <= value <= high:
            raise InputError(f"{_name(plan)}: {field} = {value} is not within {low} and {high}.")


def _name(plan: msgspec.Struct) -> str:
    return type(plan).__name__
