"""Evaluator of the correctness of tool calls."""

from __future__ import annotations

import math
from typing import Any

from ratchet.evaluate.called_tools import (
    ArgumentMatch,
    CallMatch,
    called_tools,
    described,
    wanted_tools,
)
from ratchet.types import InputError, Span
from ratchet.types.wording import counted
from ratchet.worker.evaluator import FunctionEvaluator, Judgement


def tool_calls(
    *, arguments: ArgumentMatch = "exact", extra: bool = False, tolerance: float = 0.0
) -> FunctionEvaluator:
    """F1 of the rollout's tool calls against the expected ones, in any order.

    The expected calls are the task's metadata `tool_calls`, or else its expected answer: names, or
    objects with `name` and `arguments`. "1.5" and 1.5 are different arguments.

    Args:
        arguments: `exact`: a call's arguments equal the expected ones; `subset`: they contain
            them; `ignore`: only names count.
        extra: Calls that are not expected do no harm: the score is the share of the expected ones
            that were made.
        tolerance: Largest difference of equal numbers in arguments.

    Raises:
        InputError: The tolerance is negative or not finite.
    """
    if not math.isfinite(tolerance) or tolerance < 0:
        raise InputError(f"The tolerance is {tolerance}; it must be a finite number, 0 or more.")
    match = CallMatch(arguments, tolerance)

    def judge(spans: list[Span], metadata: dict[str, Any], expected: Any = None) -> Judgement:
        wanted, got = wanted_tools(expected, metadata), called_tools(spans)
        count, missing, more = match.matched(wanted, got)
        notes = []
        for call in missing:
            twin = next((unexpected for unexpected in more if unexpected.name == call.name), None)
            why = f" ({match.why(call, twin)})" if twin is not None else ""
            notes.append(f"missing: {described([call])}{why}")
        if more:
            notes.append(f"not expected: {described(more)}")
        note = "; ".join(notes) or f"{counted(count, 'call')} as expected"
        if not wanted and not got:
            return Judgement(1.0, note)
        if extra:
            return Judgement(count / len(wanted) if wanted else 1.0, note)
        return Judgement(2 * count / (len(wanted) + len(got)), note)

    return FunctionEvaluator(
        judge,
        name="tool_calls",
        benchmarked=True,
        options={"arguments": arguments, "extra": extra, "tolerance": tolerance},
    )
