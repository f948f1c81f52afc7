"""Evaluator that compares data field by field."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ratchet.evaluate.json_difference import JsonComparison, short_notes
from ratchet.llm.answer_text import answer_of, comparable, json_in
from ratchet.types import InputError
from ratchet.worker.evaluator import FunctionEvaluator, Judgement


def json_match(
    *,
    tolerance: float = 0.0,
    relative: bool = False,
    ignore: Sequence[str] = (),
    ordered: bool = True,
    extra: bool = True,
    strict: bool = False,
) -> FunctionEvaluator:
    """The share of fields of the output that equal the expected answer's.

    Both are data, or text with JSON. A number and its text differ, as do 1 and true.

    Args:
        tolerance: Largest difference of equal numbers, inclusive.
        relative: Take the tolerance as a share of the expected number.
        ignore: Places that are not compared, such as `meta.id` or `items.*.at`; a name without a
            dot is ignored at any place.
        ordered: Lists have an order. Without one, at most 300 items are compared.
        extra: Fields that are not expected count as wrong.
        strict: 1 if nothing differs, else 0.

    Raises:
        InputError: The tolerance is negative or not finite.
    """
    if not math.isfinite(tolerance) or tolerance < 0:
        raise InputError(f"The tolerance is {tolerance}; it must be a finite number, 0 or more.")
    comparison = JsonComparison(tolerance, relative, tuple(ignore), ordered, extra)

    def judge(output: Any, expected: Any) -> Judgement:
        answer = answer_of(output)
        try:
            wanted = json_in(expected) if isinstance(expected, str) else expected
        except ValueError:
            wanted = expected  # a text
        try:
            got = json_in(answer)
        except ValueError as error:
            if not isinstance(wanted, str):
                return Judgement(0.0, f"the output is not JSON: {error}")
            got = answer
        difference = comparison.difference(comparable(wanted), comparable(got))
        if not difference.fields:
            raise InputError("Every field of the expected answer is ignored.")
        if strict:
            return Judgement(float(not difference.notes), short_notes(difference.notes))
        return Judgement(difference.equal / difference.fields, short_notes(difference.notes))

    return FunctionEvaluator(
        judge,
        name="json_match",
        benchmarked=True,
        options={
            "tolerance": tolerance,
            "relative": relative,
            "ignore": list(ignore),
            "ordered": ordered,
            "extra": extra,
            "strict": strict,
        },
    )
