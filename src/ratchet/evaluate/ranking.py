"""Evaluator of ranked answers: reciprocal rank."""

from __future__ import annotations

from typing import Any

from ratchet.evaluate.evaluator import FunctionEvaluator, Judgement
from ratchet.types import InputError


def reciprocal_rank(*, k: int = 10) -> FunctionEvaluator:
    """1 over the rank of the first accepted answer in the output's list; 0 below rank k.

    Args:
        k: How many ranks count.

    Raises:
        InputError: k is below 1.
    """
    if k < 1:
        raise InputError(f"reciprocal_rank needs k >= 1, not {k}.")

    def judge(output: Any, expected: Any) -> Judgement:
        accepted = expected if isinstance(expected, list) else [expected]
        if expected is None or not accepted:
            raise InputError("The task has no expected answer.")
        ranked = output if isinstance(output, list) else [output]
        for rank, answer in enumerate(ranked[:k], start=1):
            # Python takes True for 1; JSON does not.
            kinds = [one for one in accepted if isinstance(one, bool) == isinstance(answer, bool)]
            if answer in kinds:
                return Judgement(1.0 / rank, f"{answer} at rank {rank}")
        return Judgement(0.0, f"{accepted[0]} is not among the first {k}")

    return FunctionEvaluator(judge, name="reciprocal_rank", options={"k": k}, trusted=True)
