"""Evolve: it finds better prompts and code, keeps its budget, and says what is wrong early."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from ratchet.learn import Budget
from ratchet.learn.evolve import Evolve
from ratchet.llm import CoachUnavailable
from ratchet.types import Candidate, InputError
from tests.learn.conftest import FakeRunner, MakeStore, make_lab
from tests.learn.evolve.conftest import (
    FUNCTION,
    SOURCE,
    NoCoach,
    by_code,
    by_rules,
    learn,
)


def test_it_finds_the_rules_that_a_prompt_leaves_out(make_store: MakeStore) -> None:
    found = learn(make_store(), rollouts=400)
    assert found.finding.baseline_val < 0.4
    assert found.finding.best_val > 0.9
    assert "harm" not in str(found.finding.best.resources["system"])
    assert found.finding.best.algorithm == "evolve"
    assert found.finding.best.reason
    kept = [p for p in found.proposals if p.accepted]
    assert kept
    assert "instead of its parent's" in kept[0].accepted


def test_code_improves_without_any_coach(make_store: MakeStore) -> None:
    found = learn(
        make_store(),
        baseline=Candidate.of({"guess": FUNCTION}),
        answer=by_code,
        coach=NoCoach(),
        rollouts=300,
        train=12,
    )
    assert found.finding.best_val > found.finding.baseline_val + 0.2
    best = found.finding.best.resources["guess"]
    assert '"""Returns a number between the two."""' in best.source  # type: ignore[union-attr]
    assert "tried" in found.finding.sentence


@pytest.mark.parametrize("slots", [1, 8, 32])
@pytest.mark.parametrize("rollouts", [16, 17, 40, 100, 333])
def test_it_never_exceeds_its_budget(make_store: MakeStore, rollouts: int, slots: int) -> None:
    found = learn(make_store(), rollouts=rollouts, slots=slots)
    spent = found.lab.spent.rollouts
    assert found.runner.executed.total() == spent <= rollouts
    assert max(found.runner.executed.values()) == 1
    assert found.finding.best_val >= 0


def test_coach_calls_are_bounded_exactly(make_store: MakeStore) -> None:
    for limit in (5, 2):
        found = learn(make_store(), budget=Budget(rollouts=400, coach_calls=limit), slots=8)
        assert len(found.coach.calls) <= limit
        assert found.lab.spent.coach_calls == len(found.coach.calls)
    assert "coach calls are spent" in found.finding.sentence


def test_dollars_end_the_search_with_enough_left_to_compare(make_store: MakeStore) -> None:
    found = learn(make_store(), budget=Budget(dollars=3.0), cost_usd=0.01, slots=4)
    assert found.lab.spent.dollars < 3.4
    assert found.finding.best_val > found.finding.baseline_val


def test_only_prompts_and_no_coach_is_said_in_a_sentence(make_store: MakeStore) -> None:
    store = make_store()
    runner = FakeRunner(store, by_rules)
    lab = make_lab(runner, store, SOURCE, budget=Budget(rollouts=300))
    with pytest.raises(CoachUnavailable, match=r"no proposer for 'system'.*\[coach\]"):
        asyncio.run(Evolve().learn(lab))
    assert runner.executed.total() == 0


def test_without_the_coach_code_goes_on(make_store: MakeStore) -> None:
    both = Candidate.of({**SOURCE.resources, "guess": FUNCTION})
    found = learn(
        make_store(), baseline=both, answer=by_code, coach=NoCoach(), rollouts=200, train=12
    )
    assert found.finding.best.changed_from(both) == ("guess",)
    assert "the coach is no longer available" in found.finding.sentence


def test_what_the_checks_refuse_costs_no_rollout(make_store: MakeStore) -> None:
    async def checks(candidate: Candidate) -> str:
        return "It says rule 3." if "rule3" in str(candidate.resources["system"]) else ""

    store = make_store()
    found = learn(store, checks=checks)
    ran = {
        r.candidate_id
        for r in found.runner.store.rollouts.get(list(found.runner.executed)).values()
    }
    for candidate_id in ran:
        assert "rule3" not in str(store.candidates.get(candidate_id).resources["system"])
    assert "It says rule 3." in str([one.reason for one in found.lab.attempts])


def test_the_coach_sees_nothing_of_val_tasks(make_store: MakeStore) -> None:
    found = learn(make_store(), rollouts=400)
    assert found.coach.calls
    assert any('"split":"train"' in text for text in found.coach.calls)
    assert not any('"split":"val"' in text for text in found.coach.calls)


def test_failures_of_the_agent_are_part_of_what_the_coach_sees(make_store: MakeStore) -> None:
    def fragile(resources: Any, given: Any) -> float:
        value = by_rules(resources, given)
        if value == 0.0:
            raise ValueError("no such rule")
        return value

    found = learn(make_store(), answer=fragile)
    assert any("The rollout failed: no such rule" in text for text in found.coach.calls)


def test_the_coach_hears_what_survived(make_store: MakeStore) -> None:
    found = learn(make_store())
    kept = [proposal for proposal in found.proposals if proposal.accepted]
    assert kept
    assert found.coach.credits.count(True) == len(kept)


def test_the_baseline_stays_when_nothing_is_better(make_store: MakeStore) -> None:
    found = learn(make_store(), answer=lambda *_: 0.5, rollouts=120)
    assert found.finding.best == SOURCE
    assert found.finding.best_val == found.finding.baseline_val == 0.5


def test_the_choice_at_the_end_sees_through_luck(make_store: MakeStore) -> None:

    def luck(resources: Any, given: Any) -> float:
        # Scores are coins: no prompt is better than another.
        return float(random.Random(f"{resources['system']} {given}").random() < 0.5)

    gains = []
    for seed in range(3):
        found = learn(make_store(), answer=luck, seed=seed, rollouts=120)
        gains.append(found.finding.best_val - found.finding.baseline_val)
    assert sum(gains) / len(gains) < 0.4


def test_an_evaluator_that_never_says_anything_is_an_error(make_store: MakeStore) -> None:
    with pytest.raises(InputError, match="No train task has a score"):
        learn(make_store(), answer=lambda *_: 7.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"first_tasks": 0}, "a positive whole number"),
        ({"patience": True}, "a positive whole number"),
        ({"max_growth": 0.5}, "a number of at least 1"),
        ({"proposers": []}, "a list of llm and ast"),
        ({"proposers": "ast"}, "a list of llm and ast"),
        ({"proposers": ["asd"]}, "a list of llm and ast"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Evolve(**options)
