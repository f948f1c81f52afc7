"""What a search by APO may still begin, as its own count has it."""

from __future__ import annotations

from collections.abc import Callable

from ratchet.learn import Budget
from ratchet.learn.apo.budget import PLENTY, SearchSpending
from ratchet.store import Store
from ratchet.types import Candidate, PromptTemplate
from tests.learn.conftest import FakeRunner, MakeStore, make_lab

SOURCE = Candidate.of({"system": PromptTemplate("Be kind.")})


def spending(make_store: Callable[[], Store], budget: Budget, reserve: int = 0) -> SearchSpending:
    store = make_store()
    lab = make_lab(FakeRunner(store, lambda *_: 0.5), store, SOURCE, budget=budget)
    return SearchSpending(lab, reserve=reserve, known=[])


def test_what_is_kept_for_the_comparison_is_not_left(make_store: MakeStore) -> None:
    count = spending(make_store, Budget(rollouts=50), reserve=20)
    assert count.rollouts_left(0) == 30
    count.begun(12)
    assert count.rollouts_left(12) == 18


def test_rollouts_that_turned_out_to_cost_nothing_are_left_again(make_store: MakeStore) -> None:
    count = spending(make_store, Budget(rollouts=50))
    count.begun(12)
    count.settle()  # the lab spent nothing: all were run before
    assert count.rollouts_left(12) == 50


def test_coach_calls_that_were_not_made_are_given_back(make_store: MakeStore) -> None:
    count = spending(make_store, Budget(coach_calls=10))
    count.ask(7)
    assert count.calls_left() == 3
    count.ask(-5)
    assert count.calls_left() == 8


def test_without_limits_there_is_plenty(make_store: MakeStore) -> None:
    count = spending(make_store, Budget())
    assert (count.rollouts_left(5), count.calls_left()) == (PLENTY, PLENTY)
