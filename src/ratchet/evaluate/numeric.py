"""Evaluator that compares numbers with a tolerance."""

from __future__ import annotations

import math
import re
from typing import Any

from ratchet.evaluate.evaluator import FunctionEvaluator, Judgement
from ratchet.types import InputError

_MINUS = "\u2212"
"""The typographic minus, which models also write."""

_NUMBER = re.compile(
    r"(?:(?<!\w)[-+\u2212])?"  # a hyphen between two numbers, as in 2024-05, is no sign
    r"(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
)


def numeric(*, tolerance: float = 1e-6, relative: bool = False) -> FunctionEvaluator:
    """1 if the output's number equals the expected one within the tolerance.

    In a text, the last number counts, with or without thousands separators: answers usually end
    with their result.

    Args:
        tolerance: Largest accepted difference, inclusive.
        relative: Take the tolerance as a share of the expected number.

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
        if limit:  # 1.1 is within 0.1 of 1, but not in binary floating point
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
    except OverflowError:  # an integer too large for a float
        return None
