"""Evaluator of the overlap of two sets or lists."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from ratchet.llm.answer_text import answer_of, comparable, json_in
from ratchet.types import InputError
from ratchet.worker.evaluator import FunctionEvaluator, Judgement

OverlapMetric: TypeAlias = Literal["f1", "precision", "recall", "jaccard"]

MAX_ORDERED = 2_000
"""Maximum number of items of lists whose order counts."""

MAX_ITEMS = 100_000
MAX_TEXT = 1_000_000
"""Maximum number of items of a list, and characters of a text that holds a list."""

_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")


def overlap(
    *, metric: OverlapMetric = "f1", ordered: bool = False, ignore_case: bool = True
) -> FunctionEvaluator:
    """The overlap of the output's items and the expected ones.

    Items that repeat count as often as both have them. A text is the list that it holds as JSON, or
    else its lines, or, if it is one line, what commas and semicolons separate. Two empty lists are
    equal.

    Args:
        metric: `precision` is the share of the output's items that are expected, `recall` the share
            of the expected ones that the output has, `f1` their harmonic mean, `jaccard` the share
            of all items that both have.
        ordered: Only items in the same order count: the longest common subsequence.
        ignore_case: Compare text without regard to case.
    """

    def judge(output: Any, expected: Any) -> Judgement:
        as_text = isinstance(output, str) or isinstance(expected, str)
        got, wanted = (
            [_key(item, as_text, ignore_case) for item in _items(value)]
            for value in (comparable(answer_of(output)), comparable(expected))
        )
        if ordered:
            if max(len(got), len(wanted)) > MAX_ORDERED:
                raise InputError(f"A list has more than {MAX_ORDERED} items.")
            shared = _longest_common(got, wanted)
        else:
            shared = (Counter(got) & Counter(wanted)).total()
        missing = [*(Counter(wanted) - Counter(got))]
        more = [*(Counter(got) - Counter(wanted))]
        note = f"{shared} shared, {len(wanted) - shared} missing, {len(got) - shared} more"
        if missing:
            note += f"; missing: {missing[0][:200]}"
        if more:
            note += f"; not expected: {more[0][:200]}"
        return Judgement(_measure(metric, shared, len(got), len(wanted)), note)

    return FunctionEvaluator(
        judge,
        name="overlap",
        benchmarked=True,
        options={"metric": metric, "ordered": ordered, "ignore_case": ignore_case},
    )


def _measure(metric: OverlapMetric, shared: int, got: int, wanted: int) -> float:
    if not got and not wanted:
        return 1.0
    if metric == "precision":
        return shared / got if got else 0.0
    if metric == "recall":
        return shared / wanted if wanted else 0.0
    if metric == "jaccard":
        return shared / (got + wanted - shared)
    return 2 * shared / (got + wanted)


def _items(value: Any) -> list[Any]:
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise InputError(f"A text with a list is longer than {MAX_TEXT} characters.")
        try:
            parsed = json_in(value)
        except ValueError:
            parsed = None
        if isinstance(parsed, list):
            return parsed
        lines = [line for line in value.splitlines() if line.strip()]
        parts = lines if len(lines) > 1 else re.split(r"[,;]", value)
        return [text for part in parts if (text := _BULLET.sub("", part).strip())]
    if isinstance(value, dict):
        raise InputError("Only sets and lists are compared; for objects, use json_match.")
    if isinstance(value, list) and len(value) > MAX_ITEMS:
        raise InputError(f"A list has more than {MAX_ITEMS} items.")
    return value if isinstance(value, list) else [] if value is None else [value]


def _key(item: Any, as_text: bool, ignore_case: bool) -> str:
    """A key, equal for equal items. Types differ, unless one side is a text."""
    if isinstance(item, str):
        item = " ".join(item.split())
        item = item.casefold() if ignore_case else item
        return item if as_text else f"text {item}"
    if isinstance(item, float) and item.is_integer():
        item = int(item)
    try:
        return json.dumps(item, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        raise InputError("An item is nested too deeply, or is not a JSON value.") from None


def _longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for left in first:
        before = 0
        for at, right in enumerate(second, start=1):
            before, row[at] = row[at], before + 1 if left == right else max(row[at], row[at - 1])
    return row[-1]
