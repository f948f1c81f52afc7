"""The scorer: nothing is judged twice, and nothing that could not be judged is a zero."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ratchet.evaluate import Scorer, evaluator, exact_match, latency, scoring
from ratchet.store import Store
from ratchet.types import Rollout, RolloutStatus, Score
from tests.evaluate.conftest import ended

Scores = dict[str, dict[str, Score]]


def scored(store: Store, evaluators: list[Any], *rollouts: Rollout) -> Scores:
    store.rollouts.create(rollouts, 1.0)
    return asyncio.run(Scorer(store, evaluators).score(rollouts))


def counting(version: str, value: float = 1.0) -> tuple[Any, list[str]]:
    calls: list[str] = []

    def judge(rollout: Rollout) -> float:
        calls.append(rollout.id)
        return value

    made = evaluator(judge, name="judge")
    made.version = version
    return made, calls


def test_scores_are_kept_and_not_made_again(sqlite_store: Store) -> None:
    judge, calls = counting("1")
    first = scored(sqlite_store, [judge], ended("a", id="r1"), ended("b", id="r2"))
    second = scored(
        sqlite_store, [judge], ended("a", id="r1"), ended("b", id="r2"), ended("c", id="r3")
    )
    assert sorted(calls) == ["r1", "r2", "r3"]
    assert {k: second[k] for k in first} == first
    assert sqlite_store.scores.of(["r1"])["r1"] == [first["r1"]["judge"]]


def test_another_version_is_judged_and_the_earlier_one_is_found_again(sqlite_store: Store) -> None:
    old, old_calls = counting("old", 0.25)
    new, new_calls = counting("new", 0.75)
    rollout = ended("a")
    for judge, value in ((old, 0.25), (new, 0.75), (old, 0.25), (new, 0.75)):
        assert scored(sqlite_store, [judge], rollout)["r"]["judge"].value == value
    assert (old_calls, new_calls) == (["r"], ["r"])


def test_the_agents_own_scores_are_included(sqlite_store: Store) -> None:
    rollout = ended("a")
    sqlite_store.rollouts.create([rollout], 1.0)
    reward = Score(evaluator="reward", version="agent", value=0.5)
    sqlite_store.scores.add([("r", reward)], 1.0)
    found = scored(sqlite_store, [latency()], rollout)["r"]
    assert found["reward"] == reward
    assert list(found) == ["latency", "reward"]


@pytest.mark.parametrize("status", ["failed", "timed_out", "crashed"])
def test_a_rollout_without_an_answer_counts_zero_and_says_so(
    sqlite_store: Store, status: RolloutStatus
) -> None:
    judge, calls = counting("1")
    found = scored(sqlite_store, [judge, latency()], ended(status=status, error="KeyError: 'x'"))[
        "r"
    ]
    assert found["judge"].value == 0
    assert found["judge"].rationale == f"The rollout {status.replace('_', ' ')}: KeyError: 'x'"
    assert found["latency"].value == 0.5
    assert calls == []


def test_a_rollout_that_never_began_has_no_latency(sqlite_store: Store) -> None:
    found = scored(sqlite_store, [latency()], ended(status="crashed", duration_s=None))["r"]
    assert found["latency"].value is None
    assert found["latency"].error.startswith("The rollout is crashed")


@pytest.mark.parametrize("status", ["inconclusive", "cancelled"])
def test_a_rollout_that_says_nothing_has_no_score(
    sqlite_store: Store, status: RolloutStatus
) -> None:
    judge, calls = counting("1")
    found = scored(sqlite_store, [judge, latency()], ended(status=status, error="blocked"))["r"]
    for score in found.values():
        assert score.value is None
        assert score.error == f"The rollout is {status}: blocked"
    assert calls == []


def test_an_evaluator_that_raises_gives_an_error_and_harms_no_other(sqlite_store: Store) -> None:
    def broken(output: str) -> float:
        raise ValueError("cannot read this")

    found = scored(sqlite_store, [evaluator(broken), exact_match()], ended("a", "a"))["r"]
    assert (found["broken"].value, found["broken"].error) == (
        None,
        "evaluator failed: ValueError cannot read this",
    )
    assert found["exact_match"].value == 1
    assert sqlite_store.scores.of(["r"])["r"][0] == found["broken"]


class Rude:
    """An evaluator that breaks its protocol."""

    name, version, unit = "rude", "1", ""

    async def score(self, rollout: Rollout, spans_of: Any) -> Score:
        raise RuntimeError("no manners")


def test_an_evaluator_that_breaks_its_protocol_gives_an_error(sqlite_store: Store) -> None:
    found = scored(sqlite_store, [Rude(), exact_match()], ended("a", "a"))["r"]
    assert (found["rude"].value, found["rude"].error) == (
        None,
        "evaluator failed: RuntimeError no manners",
    )
    assert found["exact_match"].value == 1


def test_what_was_judged_before_an_interruption_is_kept(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "STORED_AT_ONCE", 4)
    calls: list[str] = []

    @evaluator
    async def judge(rollout: Rollout) -> float:
        calls.append(rollout.id)
        if len(calls) == 10:
            asyncio.current_task().cancel()  # type: ignore[union-attr]
            task.cancel()
        return 1.0

    rollouts = [ended("a", id=f"r{i:02}") for i in range(20)]
    sqlite_store.rollouts.create(rollouts, 1.0)
    task: asyncio.Task[Scores]

    async def interrupted() -> None:
        nonlocal task
        task = asyncio.create_task(Scorer(sqlite_store, [judge]).score(rollouts))
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())
    kept = set(calls[:8])
    assert len(scored(sqlite_store, [judge], *rollouts)) == 20
    assert all(calls.count(id) == 1 for id in kept)


def test_nothing_to_score_is_fine(sqlite_store: Store) -> None:
    assert scored(sqlite_store, [exact_match()]) == {}
