"""Evaluator that compares numbers with a tolerance."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal, TypeAlias

from ratchet.llm.answer_text import without_reasoning
from ratchet.types import InputError
from ratchet.worker.evaluator import FunctionEvaluator, Judgement

PercentReading: TypeAlias = Literal["either", "number", "fraction"]


def numeric(
    *,
    tolerance: float = 1e-6,
    relative: bool = False,
    decimal_comma: bool = False,
    percent: PercentReading = "either",
) -> FunctionEvaluator:
    """1 if the output's number equals the expected one within the tolerance.

    In a text, the number that it marks as its answer counts, or else that of its last sentence;
    `answer_in` decides which. Numbers may have separators, units of scale ("3.5 million"),
    fractions, or be in English words, and what is computed from them is read too, as in "2√3" or
    "10^5". Nothing is rounded. A tuple, a range, a time, "5 feet 3 inches" and anything with a
    variable are not plain numbers: 0.

    Args:
        tolerance: Largest accepted difference, inclusive.
        relative: Take the tolerance as a share of the expected number.
        decimal_comma: Commas are decimal, as in "1.234,50".
        percent: Whether "12%" is 12, 0.12, or either. Two percentages are compared as they are.

    Raises:
        InputError: The tolerance is negative or not finite.
    """
    if not math.isfinite(tolerance) or tolerance < 0:
        raise InputError(f"The tolerance is {tolerance}; it must be a finite number, 0 or more.")

    def judge(output: Any, expected: Any) -> Judgement:
        wanted, got = _number(expected, decimal_comma), _number(output, decimal_comma)
        if wanted is None:
            raise InputError(f"The expected answer {str(expected)[:200]!r} holds no plain number.")
        if got is None:
            return Judgement(0.0, "the output holds no plain number")
        both = wanted[1] and got[1]
        pairs = list(itertools.product(_readings(wanted, both), _readings(got, both)))
        equal = any(_is_within(left, right) for left, right in pairs)
        wanted_value, got_value = pairs[0]
        return Judgement(float(equal), f"expected {wanted_value:.15g}, got {got_value:.15g}")

    def _readings(number: tuple[float, bool], both: bool) -> list[float]:
        value, is_percent = number
        if not is_percent or both or percent == "number":
            return [value]
        return [value / 100] if percent == "fraction" else [value, value / 100]

    def _is_within(wanted: float, got: float) -> bool:
        limit = tolerance * abs(wanted) if relative else tolerance
        if limit:  # 1.1 is within 0.1 of 1, but not in binary floating point
            limit += 2 * math.ulp(max(abs(got), abs(wanted)))
        return abs(got - wanted) <= limit

    return FunctionEvaluator(
        judge,
        name="numeric",
        benchmarked=True,
        options={
            "tolerance": tolerance,
            "relative": relative,
            "decimal_comma": decimal_comma,
            "percent": percent,
        },
        trusted=True,
    )


def _number(value: Any, decimal_comma: bool) -> tuple[float, bool] | None:
    """A number, and whether it is a percentage."""
    is_percent = False
    if isinstance(value, str):
        from ratchet.evaluate.prose_answer import answer_in

        answer = answer_in(without_reasoning(value), decimal_comma=decimal_comma)
        if answer is None or not answer.plain:
            return None
        value, is_percent = answer.value, answer.percent
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return (float(value), is_percent) if math.isfinite(value) else None
    except OverflowError:  # an integer too large for a float
        return None
