"""What each built-in evaluator says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.evaluate import (
    FunctionEvaluator,
    check_process,
    contains,
    cost,
    exact_match,
    json_schema,
    latency,
    numeric,
    reciprocal_rank,
    regex,
)
from ratchet.types import InputError
from tests.evaluate.conftest import ended, verdict


def value(evaluator: FunctionEvaluator, output: Any, expected: Any = None) -> float | None:
    return verdict(evaluator, ended(output, expected)).value


@pytest.mark.parametrize(
    ("output", "expected", "score"),
    [
        ("Paris", "Paris", 1),
        (" Paris\n", "Paris", 1),
        ("paris", "Paris", 0),
        ("Paris", ["Rome", "Paris"], 1),
        ("Berlin", ["Rome", "Paris"], 0),
        ("", "", 1),
        (None, "None", 0),
        (4, 4.0, 1),
        (4, "4", 1),
        ("4.50", 4.5, 1),
        (True, "true", 0),
        ("four", 4, 0),
        (True, 1, 0),
        (1, True, 0),
        (False, False, 1),
        ({"a": [1]}, {"a": [1]}, 1),
        ([1, 2], [1, 2], 1),
        ([1], [1, 2], 0),
        ("日本", "日本", 1),
    ],
)
def test_exact_match(output: Any, expected: Any, score: float) -> None:
    assert value(exact_match(), output, expected) == score


def test_exact_match_with_options() -> None:
    assert value(exact_match(ignore_case=True), "STRASSE", "straße") == 1
    assert value(exact_match(strip=False), "a ", "a") == 0


@pytest.mark.parametrize(
    "evaluator", [exact_match(), contains(), regex(), numeric(), reciprocal_rank()]
)
def test_without_an_expected_answer_there_is_no_score(evaluator: FunctionEvaluator) -> None:
    score = verdict(evaluator, ended(None, None))
    assert score.value is None
    assert "The task has no expected" in score.error


@pytest.mark.parametrize(
    ("options", "output", "expected", "score"),
    [
        ({}, "It is PARIS.", "paris", 1),
        ({"ignore_case": False}, "It is PARIS.", "paris", 0),
        ({}, "It is Rome.", ["paris", "rome"], 1),
        ({"all_of": True}, "Rome and Oslo", ["paris", "rome"], 0.5),
        ({}, None, "no", 0),
        ({}, 42, 42, 1),
        ({}, 42, 4, 0),
        ({}, "It costs $4.25, or 14.5 with 4x the size.", "4", 1),
        ({}, "It costs $4.25, or 14.5.", "4", 0),
        ({}, "It costs 4.", "4", 1),
        ({}, "I know that it is required.", ["no", "red"], 0),
        ({}, "Not red? No: the red one.", "red", 1),
        ({}, "東京は日本の首都です。", "日本", 1),
        ({}, ["a", "b"], "b", 1),
    ],
)
def test_contains(options: Any, output: Any, expected: Any, score: float) -> None:
    assert value(contains(**options), output, expected) == score


@pytest.mark.parametrize(
    ("options", "output", "expected", "score"),
    [
        ({"pattern": r"\d+"}, "a 12 b", None, 1),
        ({"pattern": r"\d+", "full": True}, "a 12 b", None, 0),
        ({"pattern": r"(?s)a.b", "full": True}, "a\nb", None, 1),
        ({"pattern": r"^$"}, None, None, 1),
        ({"pattern": "ü+"}, "müüde", None, 1),
        ({"pattern": "a"}, "lone \ud800 a", None, 1),
        ({}, "order 66", r"order \d+", 1),
        ({}, "order 66", ["^nothing$", r"\d{2}"], 1),
    ],
)
def test_regex(options: Any, output: Any, expected: Any, score: float) -> None:
    assert value(regex(**options), output, expected) == score


def test_a_malformed_pattern_is_refused_or_an_error_score() -> None:
    with pytest.raises(InputError, match="not a regular expression"):
        regex(pattern="(")
    score = verdict(regex(), ended("a", "("))
    assert score.value is None
    assert "unterminated subpattern" in score.error


def test_a_pattern_that_backtracks_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_process, "MATCH_S", 0.2)
    hopeless = ended("a" * 60 + "!")
    for evaluator in (
        regex(pattern=r"(a|aa)+$"),
        json_schema(schema={"type": "object", "properties": {"a": {"pattern": r"^(a|aa)+$"}}}),
    ):
        text = json.dumps({"a": hopeless.output}) if evaluator.name == "json_schema" else None
        score = verdict(evaluator, ended(text or hopeless.output))
        assert score.value is None
        assert score.error == "TimeoutError: The check did not finish within 0.2 s."
    assert value(regex(pattern="a+"), "aaa") == 1  # the next one is judged as if nothing had been


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is 42.", 42),
        ("1,234,567.5 dollars", 1234567.5),
        ("$1,234", 1234),
        ("first 3, then 4", 4),
        ("x = -5", -5),
        ("−7", -7),
        ("+8", 8),
        ("6.02e23 mol", 6.02e23),
        ("1E-3", 0.001),
        (".5", 0.5),
        ("50%", 50),
        ("5.", 5),
        ("٣", 3),
        ("COVID-19", 19),
        (7, 7),
        (7.5, 7.5),
    ],
)
def test_numeric_reads_the_number_of_a_text(text: Any, number: float) -> None:
    assert value(numeric(), text, number) == 1
    assert value(numeric(), text, 2 * number) == 0


@pytest.mark.parametrize("output", [None, True, "none", "", [3], float("1e400"), 10**400, "1e400"])
def test_an_output_without_a_usable_number_is_a_zero(output: Any) -> None:
    assert value(numeric(), output, 3) == 0


@pytest.mark.parametrize("expected", ["none", True, 10**400, [3]])
def test_an_expected_answer_without_a_number_is_an_error(expected: Any) -> None:
    assert value(numeric(), "3", expected) is None


@pytest.mark.parametrize(
    ("options", "output", "expected", "score"),
    [
        ({"tolerance": 0.1}, 1.1, 1.0, 1),
        ({"tolerance": 0.1}, 1.1001, 1.0, 0),
        ({"tolerance": 0.1}, 0.9, 1.0, 1),
        ({"tolerance": 0}, 0.1 + 0.2, 0.3, 0),
        ({"tolerance": 0}, 3, "3", 1),
        ({"tolerance": 0.05, "relative": True}, 105, 100, 1),
        ({"tolerance": 0.05, "relative": True}, 106, 100, 0),
        ({"tolerance": 0.05, "relative": True}, -105, -100, 1),
        ({"tolerance": 0.05, "relative": True}, 0.001, 0, 0),
    ],
)
def test_numeric_tolerance(options: Any, output: Any, expected: Any, score: float) -> None:
    assert value(numeric(**options), output, expected) == score


@given(st.integers(-(10**12), 10**12), st.sampled_from(["{:,}", "{}", "a {:,} b", "= {:.1f}"]))
def test_numeric_reads_what_python_writes(number: int, form: str) -> None:
    assert value(numeric(), form.format(number), number) == 1


@given(st.text("0123456789,.-+eE ", max_size=60))
def test_numeric_reads_any_text(text: str) -> None:
    assert value(numeric(), text, 1) in (0, 1)


def test_long_digits_are_read_in_linear_time() -> None:
    # Backtracking over so many digits would take longer than anybody waits.
    assert value(numeric(), "1," * 200_000 + "9" * 200_000, 1) == 0


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("output", "score", "why"),
    [
        ({"name": "A", "age": 3}, 1, ""),
        ('{"name": "A"}', 1, ""),
        ({"age": 3}, 0, "'name' is a required property"),
        ({"name": "A", "age": -1}, 0, "at $.age"),
        ("not json", 0, "the output is not JSON"),
        ("[" * 100_000, 0, "the output is not JSON"),
        ("9" * 5000, 0, "the output is not JSON"),
        (None, 0, "None is not of type 'object'"),
    ],
)
def test_json_schema(output: Any, score: float, why: str, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    inline, read = json_schema(schema=SCHEMA), json_schema(file=str(file))
    assert inline.version == read.version
    for evaluator in (inline, read):
        judged = verdict(evaluator, ended(output))
        assert judged.value == score
        assert why in judged.rationale


def test_json_schema_checks_patterns() -> None:
    evaluator = json_schema(schema={"patternProperties": {"^n": {"pattern": "^A"}}})
    assert value(evaluator, {"n": "Anna", "x": "B"}) == 1
    assert value(evaluator, {"n": "Bob"}) == 0


@pytest.mark.parametrize(
    ("output", "expected", "score"),
    [
        (["a", "b", "c"], "a", 1),
        (["a", "b", "c"], "b", 1 / 2),
        (["a", "b", "c"], ["c", "b"], 1 / 2),
        (["b", "b", "a", "a"], "a", 1 / 3),
        (["a", "b", "c"], "d", 0),
        (["x", "x", "x", "a"], "a", 0),
        ([], "a", 0),
        ("a", "a", 1),
        (None, "a", 0),
        ({"a": 1}, "a", 0),
        ([["a"], "b"], [["a"]], 1),
        ([1, "a"], [True, "a"], 1 / 2),
    ],
)
def test_reciprocal_rank(output: Any, expected: Any, score: float) -> None:
    assert value(reciprocal_rank(k=3), output, expected) == score


def test_latency_and_cost_measure_or_judge() -> None:
    rollout = ended("a", duration_s=0.5, cost_usd=0.02)
    measured = verdict(latency(), rollout)
    assert (measured.value, measured.unit) == (0.5, "s")
    assert verdict(latency(within=0.5), rollout).value == 1
    assert verdict(latency(within=0.4), rollout).value == 0
    spent = verdict(cost(), rollout)
    assert (spent.value, spent.unit) == (0.02, "USD")
    assert verdict(cost(within=0.01), rollout).value == 0
    assert verdict(latency(), ended("a", duration_s=None)).value is None
    assert verdict(cost(), ended("a", cost_usd=0.0)).value == 0.0


@pytest.mark.parametrize("evaluator", [cost(), cost(within=1.0)])
def test_a_cost_that_is_unknown_is_not_measured(evaluator: FunctionEvaluator) -> None:
    unknown = ended("a", cost_usd=None, known_usd=0.5, unpriced={"own-model": 2})
    score = verdict(evaluator, unknown)
    assert score.value is None
    assert "not measured: the price of 'own-model' is unknown" in score.error


@pytest.mark.parametrize(
    ("factory", "options"),
    [
        (numeric, {"tolerance": -1}),
        (numeric, {"tolerance": float("nan")}),
        (reciprocal_rank, {"k": 0}),
        (latency, {"within": 0}),
        (latency, {"within": float("nan")}),
        (cost, {"within": -1}),
    ],
)
def test_options_out_of_range_are_refused(factory: Any, options: Any) -> None:
    with pytest.raises(InputError, match=r"k >= 1|not a|must be a"):
        factory(**options)


def test_versions_change_with_the_options() -> None:
    versions = [
        e.version
        for e in (
            exact_match(),
            exact_match(ignore_case=True),
            contains(),
            numeric(),
            numeric(tolerance=0.1),
            reciprocal_rank(),
            reciprocal_rank(k=3),
            regex(pattern="a"),
            regex(pattern="b"),
            latency(),
            latency(within=1),
        )
    ]
    assert len(set(versions)) == len(versions)
    assert exact_match().version == exact_match().version
