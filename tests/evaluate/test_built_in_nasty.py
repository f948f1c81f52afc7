"""Whatever an output holds, a built-in evaluator gives a number or says why it gives none."""

from __future__ import annotations

import asyncio
import copy
import json
import math
from typing import Any

import pytest

from ratchet.evaluate import BUILT_IN, make_evaluator
from ratchet.store import Store
from ratchet.types import Rollout, Score, Span
from tests.evaluate.conftest import ended

OPTIONS: dict[str, dict[str, Any]] = {
    "json_schema": {"schema": {"type": "object"}},
    "language": {"language": "en"},
    "code_tests": {"seconds": 0.5},
}
"""Options without which an evaluator cannot be made, or would take long here."""

EXPECTED: dict[str, Any] = {
    "code_tests": "assert x == 1",
    "numeric": 3,
    "sql": "SELECT a FROM t",
    "tool_calls": ["search"],
    "trajectory": ["search"],
}


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


NASTY: dict[str, Any] = {
    "ten megabytes": "word 3, " * 1_250_000,
    "ten megabytes without a space": "x" * 10_000_000,
    "deep text": "[" * 100_000,
    "deep list": deep(5_000),
    "lone surrogate": "a \ud800 b 3",
    "surrogate in data": {"a \udfff": ["\ud800"]},
    "nul": "a\x00b 3",
    "no number": math.nan,
    "infinite": [math.inf, -math.inf],
    "huge integer": 10**5_000,
    "huge integer text": "9" * 10_000,
    "nothing": None,
    "empty": "",
    "empty object": {},
    "many items": list(range(50_000)),
    "right to left": "\u202e3 \u0663\u200b",
}


def judged(name: str, output: Any, **fields: Any) -> tuple[Rollout, Score]:
    evaluator = make_evaluator(name, OPTIONS.get(name))
    expected = EXPECTED.get(name, "3")
    rollout = ended(output, expected, **{"metadata": {"passages": ["a b 3"]}, **fields})
    span = Span(
        trace_id="t",
        span_id="s",
        name="search",
        start_ns=0,
        end_ns=1,
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": "[" * 1_000,
            "gen_ai.usage.input_tokens": math.nan,
            "gen_ai.retrieval.documents": '{"content": "\ud800"}',
        },
    )
    return rollout, asyncio.run(evaluator.score(rollout, lambda _: [span]))


def assert_is_a_score(score: Score) -> None:
    if score.value is None:
        assert score.error
        assert not score.error.startswith("No verdict within")
    else:
        assert not score.error
        assert math.isfinite(score.value)
        assert score.unit or 0 <= score.value <= 1
    assert len(score.rationale) + len(score.error) < 10_000


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_output_has_a_number_or_a_reason(name: str) -> None:
    for words, output in NASTY.items():
        shallow = words not in ("deep list", "ten megabytes", "many items", "no number", "infinite")
        before = copy.deepcopy(output) if shallow else None
        rollout, score = judged(name, output)
        assert_is_a_score(score)
        if shallow:
            assert rollout.output == before, words


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_expected_answer_and_input_has_a_number_or_a_reason(name: str) -> None:
    evaluator = make_evaluator(name, OPTIONS.get(name))
    for output in ("It is 3.", '{"a": 3}', "SELECT a FROM t"):
        for nasty in ("lone surrogate", "deep text", "huge integer", "infinite", "empty object"):
            rollout = ended(output, NASTY[nasty], input=NASTY[nasty])
            assert_is_a_score(asyncio.run(evaluator.score(rollout, lambda _: [])))


def test_scores_of_nasty_outputs_can_be_stored(sqlite_store: Store) -> None:
    sqlite_store.rollouts.create([ended("", id="r")], 1.0)
    for output in ("lone surrogate", "surrogate in data", "nul"):
        for name in ("json_match", "exact_match", "overlap", "refusal", "groundedness"):
            _, score = judged(name, NASTY[output])
            sqlite_store.scores.add([("r", score)], 1.0)
            stored = {each.evaluator: each for each in sqlite_store.scores.of(["r"])["r"]}
            assert stored[name].value == score.value


def test_json_text_with_nan_is_no_score_of_nan() -> None:
    _, score = judged("json_match", json.dumps({"a": math.nan}))
    assert_is_a_score(score)
