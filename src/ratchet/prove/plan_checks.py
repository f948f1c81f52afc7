"""Checks of the numbers in a plan; their errors name the field."""

from __future__ import annotations

from math import isfinite
from typing import get_args

import msgspec

from ratchet.prove.missing import MissingRule
from ratchet.types import InputError


def check_numbers(plan: msgspec.Struct, low: float, high: float, *fields: str) -> None:
    """Convert each field to a float from `low` to `high`.

    Raises:
        InputError: A value is not a number or out of range.
    """
    for field in fields:
        value = getattr(plan, field)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
            raise InputError(f"{_name(plan)}: {field} = {value!r} is not a number.")
        if not low <= value <= high:
            raise InputError(
                f"{_name(plan)}: {field} = {value!r} is not between {low:g} and {high:g}."
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
            raise InputError(f"{_name(plan)}: {field} = {value} is not between {low} and {high}.")


def check_missing(
    plan: msgspec.Struct, rule: MissingRule, limit: float | msgspec.UnsetType
) -> None:
    """Check the rule `missing` of a stage's plan, and its limit `max_missing`.

    Raises:
        InputError: The rule is unknown, or has no limit or one that it does not use.
    """
    if rule not in get_args(MissingRule):
        raise InputError(f"{_name(plan)}: missing = {rule!r} is neither 'worst' nor 'skip'.")
    if (rule == "skip") != (limit is not msgspec.UNSET):
        raise InputError(
            f"{_name(plan)}: max_missing belongs to missing = 'skip' only.",
            hint="Give both, for evidence in the earlier layout, or neither.",
        )
    if rule == "skip":
        check_numbers(plan, 0.0, 1.0, "max_missing")


def _name(plan: msgspec.Struct) -> str:
    return type(plan).__name__
