"""Evaluators that compare text: exact match, contains, regex."""

from __future__ import annotations

import json
import re
from typing import Any

from ratchet.evaluate.check_process import match_within_limit
from ratchet.evaluate.json_difference import JsonComparison, short_notes, value_note
from ratchet.llm.answer_text import answer_of, answer_text, comparable, output_text
from ratchet.types import InputError
from ratchet.types.scripts import find_words
from ratchet.worker.evaluator import FunctionEvaluator, Judgement, UnfitTask


def _number(text: str) -> float | int | None:
    """The number in a text, if the text is a JSON number; otherwise None."""
    try:
        number = json.loads(text)
    except ValueError:
        return None
    return number if type(number) in (int, float) else None


def exact_match(*, ignore_case: bool = False, strip: bool = True) -> FunctionEvaluator:
    """1 if the output equals the expected answer, or any of a list of them.

    A number equals the text of it: what a program prints may have been read as either.

    Args:
        ignore_case: Compare text without regard to case.
        strip: Compare text without surrounding white space.
    """

    def normal(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        value = value.strip() if strip else value
        return value.casefold() if ignore_case else value

    def same(left: Any, right: Any) -> bool:
        if isinstance(left, str) != isinstance(right, str):
            text, number = (left, right) if isinstance(left, str) else (right, left)
            return type(number) in (int, float) and _number(text) == number
        # Python equates True and 1; JSON does not.
        return isinstance(left, bool) == isinstance(right, bool) and normal(left) == normal(right)

    def judge(output: Any, expected: Any) -> Judgement:
        output, expected = comparable(answer_of(output)), comparable(expected)
        several = isinstance(expected, list) and not isinstance(output, list)
        if same(output, expected) or (
            several and any(same(output, alternative) for alternative in expected)
        ):
            return Judgement(1.0)
        if type(output) is type(expected) and isinstance(expected, (dict, list)):
            return Judgement(0.0, short_notes(JsonComparison().difference(expected, output).notes))
        return Judgement(0.0, value_note(expected, output))

    return _made(judge, "exact_match", ignore_case=ignore_case, strip=strip)


def contains(*, ignore_case: bool = True, all_of: bool = False) -> FunctionEvaluator:
    """1 if the output's text contains the expected text, or any of several, as whole words.

    "know" does not contain "no", nor "1420" or "4.25" the number "42" or "4". Data is searched as
    JSON.

    Args:
        ignore_case: Search without regard to case.
        all_of: With several expected texts: score the share that is contained.
    """

    def normal(text: str) -> str:
        # Folding takes characters apart, so the normal form comes last.
        return str(comparable(comparable(text).casefold() if ignore_case else text))

    def judge(output: Any, expected: Any) -> float:
        wanted = _expected_texts(expected, "text")
        text, is_data = normal(answer_text(output)), not isinstance(output, str)

        def is_there(fragment: str) -> bool:
            return find_words(text, normal(fragment)) >= 0

        contained = [
            is_there(fragment)
            or (is_data and is_there(json.dumps(fragment, ensure_ascii=False)[1:-1]))
            for fragment in wanted
        ]
        return sum(contained) / len(contained) if all_of else float(any(contained))

    return _made(judge, "contains", ignore_case=ignore_case, all_of=all_of)


def regex(*, pattern: str | None = None, full: bool = False) -> FunctionEvaluator:
    """1 if a regular expression matches the output's text. Data is searched as JSON.

    Matching runs in a separate process: an expression that backtracks without end is stopped after
    MATCH_S seconds and gives an error score.

    Args:
        pattern: The expression; None to use each task's expected answer, or any of several.
        full: Match the whole text, not a part of it.

    Raises:
        InputError: The pattern is empty, or not a regular expression.
    """
    if pattern is not None and not pattern.strip():
        raise InputError("The pattern is empty; it would match every output.")
    try:
        if pattern is not None:
            re.compile(pattern)
    except re.error as error:
        raise InputError(f"The pattern {pattern!r} is not a regular expression: {error}.") from None

    def judge(output: Any, expected: Any = None) -> Judgement:
        patterns = _expected_texts(expected, "pattern") if pattern is None else [pattern]
        text = answer_text(output)
        for wanted in patterns:
            # Composed too, so that "é" is matched however both are written.
            for expression, subject in dict.fromkeys(
                [(wanted, text), (comparable(wanted), comparable(text))]
            ):
                matched = match_within_limit(expression, subject, full=full)
                if matched is not None:
                    return Judgement(1.0, f"matched {matched[:80]!r}")
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


def _expected_texts(expected: Any, kind: str) -> list[str]:
    """The texts to search for in an output, none of them empty.

    Raises:
        UnfitTask: There is none, or one is empty: every output would contain it.
    """
    wanted = [
        output_text(answer) for answer in (expected if isinstance(expected, list) else [expected])
    ]
    if not wanted or expected is None:
        raise UnfitTask(f"has no expected {kind} to look for")
    if not all(text.strip() for text in wanted):
        raise UnfitTask(f"has an empty expected {kind}, which every output would contain")
    return wanted


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
        output, expected = comparable(answer_of(output)), comparable(expected)
        accepted = expected if isinstance(expected, list) else [expected]
        if expected is None or not accepted:
            raise UnfitTask("has no expected answer")
        ranked = output if isinstance(output, list) else [output]
        for rank, answer in enumerate(ranked[:k], start=1):
            # Python equates True and 1; JSON does not.
            kinds = [
                alternative
                for alternative in accepted
                if isinstance(alternative, bool) == isinstance(answer, bool)
            ]
            if answer in kinds:
                return Judgement(1.0 / rank, f"{answer} at rank {rank}")
        return Judgement(0.0, f"{accepted[0]} is not among the first {k}")

    return FunctionEvaluator(
        judge, name="reciprocal_rank", options={"k": k}, trusted=True, benchmarked=True
    )
