"""Evaluator that compares numbers with a tolerance."""

from __future__ import annotations

import math
import re
from typing import Any

from ratchet.evaluate.evaluator import FunctionEvaluator, Judgement
from ratchet.types import InputError

_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*)?\.?\d+(?:[eE][-+]?\d+)?")


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
        return Judgement(float(abs(got - wanted) <= limit), f"{got:g} where {wanted:g} is expected")

    return FunctionEvaluator(
        judge,
        name="numeric",
        options={"tolerance": tolerance, "relative": relative},
        trusted=True,
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value) if math.isfinite(value) else None
    found = _NUMBER.findall(value) if isinstance(value, str) else []
    return float(found[-1].replace(",", "")) if found else None
