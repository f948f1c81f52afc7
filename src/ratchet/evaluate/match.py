"""Evaluators that compare text: exact match, contains, regex."""

from __future__ import annotations

import re
from typing import Any

from ratchet.evaluate.evaluator import FunctionEvaluator, Judgement
from ratchet.types import InputError


def exact_match(*, ignore_case: bool = False, strip: bool = True) -> FunctionEvaluator:
    """1 when the output equals the expected answer, or one of several when a list is expected.

    Args:
        ignore_case: Compare text without regard to case.
        strip: Compare text without surrounding white space.
    """

    def normal(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        value = value.strip() if strip else value
        return value.casefold() if ignore_case else value

    def judge(output: Any, expected: Any) -> bool:
        if normal(output) == normal(expected):
            return True
        several = isinstance(expected, list) and not isinstance(output, list)
        return several and any(normal(output) == normal(one) for one in expected)

    return _made(judge, "exact_match", ignore_case=ignore_case, strip=strip)


def contains(*, ignore_case: bool = True, all_of: bool = False) -> FunctionEvaluator:
    """1 when the output's text contains the expected text, or one of several.

    Args:
        ignore_case: Search without regard to case.
        all_of: With several expected texts: the share of them that is contained.
    """

    def judge(output: Any, expected: Any) -> float:
        wanted = expected if isinstance(expected, list) else [expected]
        if expected is None or not wanted:
            raise InputError("The task has no expected text to look for.")
        fold = str.casefold if ignore_case else str
        text = fold(str(output))
        found = [fold(str(one)) in text for one in wanted]
        return sum(found) / len(found) if all_of else float(any(found))

    return _made(judge, "contains", ignore_case=ignore_case, all_of=all_of)


def regex(*, pattern: str | None = None, full: bool = False) -> FunctionEvaluator:
    """1 when a regular expression matches the output's text.

    Args:
        pattern: The expression; None takes each task's expected answer for it.
        full: The whole text must match, not a part of it.

    Raises:
        InputError: The pattern is not a regular expression.
    """
    try:
        fixed = re.compile(pattern) if pattern is not None else None
    except re.error as error:
        raise InputError(f"The pattern {pattern!r} is not a regular expression: {error}.") from None

    def judge(output: Any, expected: Any) -> Judgement:
        compiled = fixed or re.compile(str(expected))
        found = compiled.fullmatch(str(output)) if full else compiled.search(str(output))
        shown = f"matched {found.group(0)[:80]!r}" if found else f"no match of {compiled.pattern!r}"
        return Judgement(float(found is not None), shown)

    return _made(judge, "regex", pattern=pattern, full=full)


def _made(judge: Any, name: str, **options: Any) -> FunctionEvaluator:
    # A regular expression can take for ever, so only the others are trusted to return.
    return FunctionEvaluator(judge, name=name, options=options, trusted=name != "regex")
