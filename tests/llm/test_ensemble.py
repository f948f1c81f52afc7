"""The ensemble: shares by weight, calls that move to what survives, none that starves."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ratchet.llm import CoachModel, Ensemble
from ratchet.types import ConfigError


def models(**weights: float) -> list[CoachModel]:
    return [CoachModel(name=name, weight=weight) for name, weight in weights.items()]


def draws(ensemble: Ensemble, count: int, begin: int = 0) -> Counter[str]:
    return Counter(ensemble.draw(f"call {n}").name for n in range(begin, begin + count))


def play(ensemble: Ensemble, rates: dict[str, float], count: int, begin: int = 0) -> Counter[str]:
    luck = random.Random(begin)
    asked: Counter[str] = Counter()
    for n in range(begin, begin + count):
        name = ensemble.draw(f"call {n}").name
        asked[name] += 1
        ensemble.credit(name, luck.random() < rates[name])
    return asked


@pytest.mark.parametrize("seed", range(5))
def test_calls_move_to_the_model_whose_proposals_survive(seed: int) -> None:
    ensemble = Ensemble(models(bad=1, good=1, worse=1), seed)
    rates = {"bad": 0.2, "good": 0.6, "worse": 0.1}
    play(ensemble, rates, 150)
    later = play(ensemble, rates, 300, 150)
    assert later["good"] > 180
    assert min(later.values()) >= 5  # no model starves


def test_a_model_that_gets_better_is_noticed() -> None:
    ensemble = Ensemble(models(a=1, b=1))
    play(ensemble, {"a": 0.7, "b": 0.05}, 200)
    play(ensemble, {"a": 0.05, "b": 0.7}, 300, 200)
    assert draws(ensemble, 200, 500)["b"] > 140


def test_draws_follow_from_the_seed_the_call_and_the_credits_alone() -> None:
    one, other = (Ensemble(models(a=1, b=1, c=1), 5) for _ in range(2))
    for ensemble in (one, other):
        for n in range(40):
            ensemble.credit("abc"[n % 3], n % 2 == 0)
    draws(one, 100)  # calls that the other does not make, as their replies are in the journal
    assert [one.draw(f"{n}").name for n in range(50)] == [
        other.draw(f"{n}").name for n in range(50)
    ]
    apart = Ensemble(models(a=1, b=1, c=1), 6)
    assert [one.draw(f"{n}").name for n in range(50)] != [
        apart.draw(f"{n}").name for n in range(50)
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "at least one model"),
        ([CoachModel(name="a"), CoachModel(name="a")], "listed twice"),
        ([CoachModel(name=" ")], "has no name"),
        ([CoachModel(name="a", weight=0)], "is not a positive number"),
        ([CoachModel(name="a", weight=float("nan"))], "is not a positive number"),
    ],
)
def test_what_makes_no_ensemble_is_told(given: list[CoachModel], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Ensemble(given)
