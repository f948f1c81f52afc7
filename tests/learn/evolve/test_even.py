"""Changes that gain nothing at first: when they run on depends on what else there is to try."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ratchet.evaluate import FunctionEvaluator
from ratchet.learn import Budget
from tests.learn.conftest import MakeStore
from tests.learn.evolve.conftest import SOURCE, learn
from tests.learn.evolve.test_hopeless import Rewrites

FIRST = 6
"""Tasks of a first part, at most."""

Worth = Callable[[int, int], float]
"""What a variant of the prompt scores on a task, by their numbers; the source scores a half."""


def judge(output: Any) -> float:
    return float(output["score"])


def tasks_of_evens(
    make_store: MakeStore, worth: Worth, *, says: bool, rollouts: int = 500
) -> list[int]:
    """How many tasks those candidates ran that were even with the source on all of them.

    Args:
        make_store: Makes a store.
        worth: The world.
        says: Whether what a variant answers differs from what the source answers.
        rollouts: The budget.
    """

    def answer(resources: Mapping[str, Any], given: Any) -> Any:
        text = str(resources["system"])
        _, _, variant = text.rpartition("variant ")
        score = worth(int(variant), given["nr"]) if variant.isdigit() else 0.5
        return {"score": score, "said": text if says else ""}

    evaluator = FunctionEvaluator(judge, name="objective", trusted=True)
    found = learn(
        make_store(),
        coach=Rewrites(),
        answer=answer,
        evaluator=evaluator,
        budget=Budget(rollouts=rollouts),
    )
    return [p.tasks for p in found.proposals if p.value == 0.5]


@pytest.mark.long
def test_where_most_changes_break_something_one_that_is_even_runs_on(
    make_store: MakeStore,
) -> None:
    def mostly_broken(variant: int, nr: int) -> float:
        return 0.5 if variant % 6 == 0 else 0.0

    evens = tasks_of_evens(make_store, mostly_broken, says=True)
    assert sum(tasks > FIRST for tasks in evens) > len(evens) / 2


@pytest.mark.long
def test_where_most_changes_gain_something_those_that_are_even_are_given_up(
    make_store: MakeStore,
) -> None:
    def mostly_better(variant: int, nr: int) -> float:
        return 0.5 if variant % 6 == 0 else 0.5 + variant / 1000

    evens = tasks_of_evens(make_store, mostly_better, says=True, rollouts=1500)
    # It is a draw, and at the beginning nobody knows what most changes do.
    assert len(evens) > 4
    assert sum(tasks > FIRST for tasks in evens) <= len(evens) / 2


def test_a_change_that_changes_no_answer_is_given_up_after_its_first_tasks(
    make_store: MakeStore,
) -> None:
    evens = tasks_of_evens(make_store, lambda variant, nr: 0.5, says=False, rollouts=250)
    assert len(evens) > 20
    assert all(tasks <= FIRST for tasks in evens)


def test_even_changes_do_not_take_the_place_of_the_source(make_store: MakeStore) -> None:
    evaluator = FunctionEvaluator(judge, name="objective", trusted=True)

    def answer(resources: Mapping[str, Any], given: Any) -> Any:
        return {"score": 0.5, "said": str(resources["system"])}

    found = learn(
        make_store(),
        coach=Rewrites(),
        answer=answer,
        evaluator=evaluator,
        budget=Budget(rollouts=300),
    )
    assert found.finding.best == SOURCE
    assert all(proposal.pruned for proposal in found.proposals)


def test_a_change_that_lost_at_first_runs_on_when_there_are_no_others(
    make_store: MakeStore,
) -> None:
    ran: Counter[str] = Counter()

    def answer(resources: Mapping[str, Any], given: Any) -> Any:
        text = str(resources["system"])
        if "variant" not in text:
            return {"score": 0.5}
        ran[text] += 1
        return {"score": 0.45 if ran[text] <= FIRST else 1.0}

    found = learn(
        make_store(),
        coach=Rewrites(),
        answer=answer,
        evaluator=FunctionEvaluator(judge, name="objective", trusted=True),
        budget=Budget(rollouts=300, coach_calls=1),
    )
    waited, kept = found.proposals
    assert waited.pruned
    assert waited.value < 0.5
    assert kept.candidate_id == waited.candidate_id == found.finding.best.id
    assert kept.accepted
