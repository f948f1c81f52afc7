"""An evaluator that fails: because of the answer, which then scores 0, or for another reason."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from typing import Any

import pytest

from ratchet.evaluate import Scorer, ScoreStream, Unscored, evaluator
from ratchet.evaluate.catalog import make_evaluator
from ratchet.store import Store
from ratchet.types import ConfigError, InputError, Rollout, Score
from tests.evaluate.conftest import ended

GARBAGE = "I would say seven"


@evaluator
def parsed(output: str, expected: int) -> bool:
    return bool(json.loads(output)["answer"] == expected)


def answer(value: Any) -> str:
    return json.dumps({"answer": value})


def scored(store: Store, made: Any, *rollouts: Rollout) -> dict[str, Score]:
    store.rollouts.create(rollouts, 1.0)
    found = asyncio.run(Scorer(store, [made]).score(rollouts))
    return {id: scores[made.name] for id, scores in found.items()}


def test_an_answer_that_breaks_the_evaluator_scores_0_and_says_why(sqlite_store: Store) -> None:
    found = scored(
        sqlite_store,
        parsed,
        ended(GARBAGE, 7, id="garbage"),
        ended('{"anwser": 7}', 7, id="other key"),
        ended(answer(7), 7, id="right"),
    )
    assert [score.value for score in found.values()] == [0.0, 0.0, 1.0]
    assert found["other key"].rationale == "evaluator failed: KeyError 'answer'"
    assert found["garbage"].rationale.startswith("evaluator failed: JSONDecodeError Expecting")
    assert found["garbage"].error == ""


def test_the_expected_answer_shows_that_an_evaluator_works(sqlite_store: Store) -> None:
    def same_number(output: str, expected: str) -> bool:
        return int(output) == int(expected)

    found = scored(sqlite_store, evaluator(same_number), ended(GARBAGE, "7"))["r"]
    assert (found.value, found.error) == (0.0, "")


def test_an_output_of_another_process_shows_that_an_evaluator_works(sqlite_store: Store) -> None:
    scored(sqlite_store, parsed, ended(answer(3), 3, id="before"))
    assert scored(sqlite_store, parsed, ended(GARBAGE, 7, id="after"))["after"].value == 0.0


def test_what_fails_before_anything_was_scored_is_settled_when_something_is(
    sqlite_store: Store,
) -> None:
    rollouts = [ended(GARBAGE, 7, id="first"), ended(answer(7), 7, id="later")]
    sqlite_store.rollouts.create(rollouts, 1.0)

    async def stream() -> dict[str, dict[str, Score]]:
        scorer = Scorer(sqlite_store, [parsed])
        alone = await scorer.score(rollouts[:1])
        assert alone["first"]["parsed"].value is None
        async with ScoreStream(scorer) as running:
            for rollout in rollouts:
                running.add(rollout)
            return await running.scores()

    found = asyncio.run(stream())
    assert [found[id]["parsed"].value for id in ("first", "later")] == [0.0, 1.0]
    assert [s.value for s in sqlite_store.scores.of(["first"])["first"]] == [0.0]


def statement_error() -> Exception:
    try:
        sqlite3.connect(":memory:").execute("select no_such_column")
    except sqlite3.OperationalError as error:
        return error
    raise AssertionError


class OperationalError(Exception):
    """As the drivers of other databases have it."""


class ReadTimeout(Exception):
    pass


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "value"),
    [
        (ValueError("cannot read this"), 0.0),
        (AssertionError(), 0.0),
        (ZeroDivisionError("division by zero"), 0.0),
        (RecursionError("too deep"), 0.0),
        (InputError("The output is longer than 10 characters."), 0.0),
        (statement_error(), 0.0),
        (FileNotFoundError("the answer names no file"), 0.0),
        (Unscored("it cannot be told"), None),
        (TimeoutError("too late"), None),
        (ImportError("no module"), None),
        (ModuleNotFoundError("no module"), None),
        (ConnectionRefusedError(), None),
        (MemoryError(), None),
        (ConfigError("a key is missing"), None),
        (sqlite3.OperationalError("unable to open database file"), None),
        (OperationalError("server closed the connection"), None),
        (caused(ReadTimeout(), TimeoutError()), None),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else str(each),
)
def test_an_outage_is_missing_and_what_the_answer_does_is_0(
    sqlite_store: Store, error: Exception, value: float | None
) -> None:
    def judge(output: str) -> float:
        if output == "bad":
            raise error
        return 1.0

    rollouts = (ended("good", id="g"), ended("bad", id="b"))
    assert scored(sqlite_store, evaluator(judge), *rollouts)["b"].value == value


@pytest.mark.parametrize("returned", [2.0, float("nan"), None, "0.5"])
def test_what_is_no_score_for_one_answer_alone_is_0(sqlite_store: Store, returned: Any) -> None:
    made = evaluator(lambda output: returned if output == "bad" else 0.5, name="e")
    found = scored(sqlite_store, made, ended("good", id="g"), ended("bad", id="b"))
    assert found["b"].value == 0.0
    assert found["b"].rationale.startswith("evaluator failed: It returned")


def test_an_evaluator_that_fails_at_random_scores_what_it_scores_the_second_time(
    sqlite_store: Store,
) -> None:
    calls: dict[str, int] = {}

    def flaky(output: str) -> float:
        calls[output] = calls.get(output, 0) + 1
        if output == "a" and calls[output] == 1:
            raise KeyError("answer")
        return 0.75

    found = scored(sqlite_store, evaluator(flaky), ended("a", id="a"), ended("b", id="b"))
    assert found["a"].value == 0.75


def test_a_service_that_is_down_for_all_is_missing(sqlite_store: Store) -> None:
    def down(output: str, expected: str) -> float:
        raise RuntimeError("503 Service Unavailable")

    found = scored(sqlite_store, evaluator(down), ended("a", "a", id="a"), ended("b", "a", id="b"))
    assert {score.value for score in found.values()} == {None}


@pytest.mark.parametrize(("on_error", "value"), [("zero", 0.0), ("missing", None)])
def test_a_project_may_know_better(sqlite_store: Store, on_error: Any, value: float | None) -> None:
    calls = []

    @evaluator(on_error=on_error)
    def judge(output: str) -> float:
        calls.append(output)
        return float(output)

    rollouts = (ended("0.5", id="g"), ended(GARBAGE, id="b"))
    assert scored(sqlite_store, judge, *rollouts)["b"].value == value
    assert calls.count(GARBAGE) == 1
    assert judge.version != evaluator(judge.__wrapped__).version  # type: ignore[attr-defined]


def test_an_outage_is_missing_whatever_a_project_says(sqlite_store: Store) -> None:
    @evaluator(on_error="zero")
    def judge(output: str) -> float:
        raise ConnectionResetError

    assert scored(sqlite_store, judge, ended("a"))["r"].value is None


def test_on_error_is_for_scores_in_0_to_1() -> None:
    with pytest.raises(ConfigError, match="'latency' is measured in s, in which 0 does not"):
        make_evaluator("latency", on_error="zero")
    with pytest.raises(InputError, match="on_error = 'none' is not one of zero, missing"):
        evaluator(on_error="none")(lambda output: 1)  # type: ignore[call-overload]


def test_a_number_with_a_unit_is_never_0_for_a_failure(sqlite_store: Store) -> None:
    @evaluator(unit="words")
    def words(output: str) -> int:
        return len(output.split())

    found = scored(sqlite_store, words, ended("a b", id="g"), ended(None, id="b"))
    assert (found["g"].value, found["b"].value) == (2.0, None)
