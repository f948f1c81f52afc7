"""Evaluators that compare text: exact match, contains, regex."""

from __future__ import annotations

import re
from typing import Any

from ratchet.evaluate.check_process import match_within_limit
from ratchet.evaluate.evaluator import FunctionEvaluator, Judgement
from ratchet.types import InputError


def exact_match(*, ignore_case: bool = False, strip: bool = True) -> FunctionEvaluator:
    """1 if the output equals the expected answer, or any of a list of them.

    Args:
        ignore_case: Compare text without regard to case.
        strip: Compare text without surrounding white space.
    """

    def normal(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        value = value.strip() if strip else value
        return value.casefold() if ignore_case else value

    def same(one: Any, other: Any) -> bool:
        # Python equates True and 1; JSON does not.
        return isinstance(one, bool) == isinstance(other, bool) and normal(one) == normal(other)

    def judge(output: Any, expected: Any) -> bool:
        if same(output, expected):
            return True
        several = isinstance(expected, list) and not isinstance(output, list)
        return several and any(same(output, one) for one in expected)

    return _made(judge, "exact_match", ignore_case=ignore_case, strip=strip)


def contains(*, ignore_case: bool = True, all_of: bool = False) -> FunctionEvaluator:
    """1 if the output's text contains the expected text, or any of several.

    Args:
        ignore_case: Search without regard to case.
        all_of: With several expected texts: score the share that is contained.
    """

    def judge(output: Any, expected: Any) -> float:
        wanted = expected if isinstance(expected, list) else [expected]
        if expected is None or not wanted:
            raise InputError("The task has no expected text to look for.")
        fold = str.casefold if ignore_case else str
        text = fold(_text(output))
        found = [fold(str(one)) in text for one in wanted]
        return sum(found) / len(found) if all_of else float(any(found))

    return _made(judge, "contains", ignore_case=ignore_case, all_of=all_of)


def regex(*, pattern: str | None = None, full: bool = False) -> FunctionEvaluator:
    """1 if a regular expression matches the output's text.

    Matching runs in a separate process: an expression that backtracks without end is stopped after
    MATCH_S seconds and gives an error score.

    Args:
        pattern: The expression; None to use each task's expected answer, or any of several.
        full: Match the whole text, not a part of it.

    Raises:
        InputError: The pattern is not a regular expression.
    """
    try:
        if pattern is not None:
            re.compile(pattern)
    except re.error as error:
        raise InputError(f"The pattern {pattern!r} is not a regular expression: {error}.") from None

    def judge(output: Any, expected: Any = None) -> Judgement:
        wanted = expected if isinstance(expected, list) else [expected]
        patterns = [str(one) for one in wanted] if pattern is None else [pattern]
        if pattern is None and (expected is None or not wanted):
            raise InputError("The task has no expected pattern.")
        for one in patterns:
            found = match_within_limit(one, _text(output), full=full)
            if found is not None:
                return Judgement(1.0, f"matched {found[:80]!r}")
        return Judgement(0.0, f"no match of {patterns[0]!r}")

    return FunctionEvaluator(
        judge,
        name="regex",
        benchmarked=True,
        options={"pattern": pattern, "full": full},
        basis="comparison" if pattern is None else "opinion",
    )


def _made(judge: Any, name: str, **options: Any) -> FunctionEvaluator:
    return FunctionEvaluator(judge, name=name, options=options, trusted=True, benchmarked=True)


def _text(output: Any) -> str:
    return "" if output is None else str(output)


def reciprocal_rank(*, k: int = 10) -> FunctionEvaluator:
    """1 over the rank of the first accepted answer in the output's list; 0 below rank k.

    Args:
        k: Number of ranks that count.

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
            # Python equates True and 1; JSON does not.
            kinds = [one for one in accepted if isinstance(one, bool) == isinstance(answer, bool)]
            if answer in kinds:
                return Judgement(1.0 / rank, f"{answer} at rank {rank}")
        return Judgement(0.0, f"{accepted[0]} is not among the first {k}")

    return FunctionEvaluator(
        judge, name="reciprocal_rank", options={"k": k}, trusted=True, benchmarked=True
    )
