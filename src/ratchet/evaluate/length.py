"""Evaluator of the length of the output."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from ratchet.llm.answer_text import answer_text
from ratchet.types import InputError
from ratchet.worker.evaluator import FunctionEvaluator, Judgement

LengthUnit: TypeAlias = Literal["words", "characters", "lines"]


def length(
    *, unit: LengthUnit = "words", at_least: int | None = None, at_most: int | None = None
) -> FunctionEvaluator:
    """The length of the output's text; with bounds, 1 if it is within them.

    Args:
        unit: What is counted. Words are what white space separates.
        at_least: Shortest good length.
        at_most: Longest good length.

    Raises:
        InputError: A bound is negative, or the bounds exclude every length.
    """
    if min(at_least or 0, at_most or 0) < 0 or (at_most is not None and at_most < (at_least or 0)):
        raise InputError(
            f"No length is between {at_least} and {at_most}; give 0 <= at_least <= at_most."
        )
    bounded = at_least is not None or at_most is not None

    def judge(output: Any) -> Judgement:
        text = answer_text(output)
        count = {
            "words": lambda: len(text.split()),
            "characters": lambda: len(text),
            "lines": lambda: len(text.splitlines()),
        }[unit]()
        if not bounded:
            return Judgement(count)
        fits = (at_least or 0) <= count and (at_most is None or count <= at_most)
        return Judgement(float(fits), f"{count} {unit}")

    return FunctionEvaluator(
        judge,
        name="length",
        unit="" if bounded else unit,
        options={"unit": unit, "at_least": at_least, "at_most": at_most},
        trusted=True,
    )
