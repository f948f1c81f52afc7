"""Evaluator that compares numbers with a tolerance."""

from __future__ import annotations

import math
import re
from typing import Any

from ratchet.evaluate.evaluator import FunctionEvaluator, Judgement
from ratchet.types import InputError

_MINUS = "\u2212"
"""The typographic minus, which models write as well."""

_NUMBER = re.compile(
    r"(?:(?<!\w)[-+\u2212])?"  # a minus between two numbers, as in 2024-05, is no sign
    r"(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
)


def numeric(*, tolerance: float = 1e-6, relative: bool = False) -> FunctionEvaluator:
    """1 when the output's number is the expected one.

    A text counts by its last number, thousands separators allowed: answers end with their result.

    Args:
        tolerance: Largest difference that still counts, both ends included.
        relative: The tolerance is a share of the expected number.

    Raises:
        InputError: The tolerance is negative or not finite.
    """
    if not math.isfinite(tolerance) or tolerance < 0:
        raise InputError(f"The tolerance {tolerance} is not a number from 0 up.")

    def judge(output: Any, expected: Any) -> Judgement:
        wanted, got = _number(expected), _number(output)
        if wanted is None:
            raise InputError(f"The expected answer {expected!r} holds no number.")
        if got is None:
            return Judgement(0.0, "the output holds no number")
        limit = tolerance * abs(wanted) if relative else tolerance
        if limit:  # 1.1 is within 0.1 of 1, though not in binary
            limit += 2 * math.ulp(max(abs(got), abs(wanted)))
        return Judgement(float(abs(got - wanted) <= limit), f"{got:g} where {wanted:g} is expected")

    return FunctionEvaluator(
        judge,
        name="numeric",
        options={"tolerance": tolerance, "relative": relative},
        trusted=True,
    )


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        found = _NUMBER.findall(value)
        value = float(found[-1].replace(",", "").replace(_MINUS, "-")) if found else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number that no float can hold
        return None
