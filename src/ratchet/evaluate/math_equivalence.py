"""Evaluator of mathematics: whether Math-Verify finds that the output has the expected answer."""

from __future__ import annotations

import importlib.util
from typing import Any

from ratchet.evaluate.check_process import same_mathematics_within_limit
from ratchet.llm.answer_text import answer_text, output_text
from ratchet.types import ConfigError
from ratchet.worker.evaluator import FunctionEvaluator, Judgement, UnfitTask


def math() -> FunctionEvaluator:
    """1 if the output's answer is mathematically the expected one, as in 1/2, 0.5 and \\frac12.

    Tuples, sets, intervals, matrices and expressions with variables are compared too. Both are read
    and compared by Math-Verify, in a separate process for at most MATCH_S seconds.

    Raises:
        ConfigError: Math-Verify is not installed.
    """
    if importlib.util.find_spec("math_verify") is None:
        raise ConfigError(
            "The evaluator 'math' needs the package math-verify.",
            hint="Install it: pip install 'agent-ratchet[math]'",
        )

    def judge(output: Any, expected: Any) -> Judgement:
        wanted = output_text(expected).strip()
        if not wanted:
            raise UnfitTask("has an empty expected answer")
        if not any(mark in wanted for mark in ("$", "\\boxed", "\\(", "\\[")):
            wanted = f"${wanted}$"  # Math-Verify reads LaTeX between its marks only
        wrong = same_mathematics_within_limit(wanted, answer_text(output))
        if wrong is None:
            return Judgement(1.0)
        if wrong == "expected":
            raise UnfitTask("has an expected answer that Math-Verify cannot parse")
        return Judgement(0.0, wrong)

    return FunctionEvaluator(judge, name="math")
