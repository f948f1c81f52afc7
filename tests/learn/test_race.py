"""The race at its decisions: who is dropped, who waits, who is chosen, by simulation and by hand.

Simulated children run 40 tasks with their parents. Each task has a difficulty of its own, each
score is 0 or 1, and the rule is asked after every task.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Mapping

import pytest

from ratchet.learn.race import ERROR, Race, RaceEntry, is_worse, next_part, untried
from ratchet.learn.work import Evaluation
from ratchet.types import Candidate, PromptTemplate, Rollout, Task

TASKS = [Task(f"t{n}", n) for n in range(40)]
CHILDREN = 400


def entry(
    number: int, scores: Mapping[int, float | None], parent: RaceEntry | None = None
) -> RaceEntry:
    made = RaceEntry(number, Candidate.of({"p": PromptTemplate(f"v{number}")}), parent)
    made.add(evaluated(TASKS[n], value) for n, value in scores.items())
    return made


def evaluated(task: Task, value: float | None) -> Evaluation:
    rollout = Rollout.of(task, "c", scope=[], seed_parts=[], queue="q", purpose="", max_attempts=1)
    return Evaluation(task=task, rollout=rollout, value=value, scores={})


def gains_of(shift: float, seed: int) -> list[float]:
    """A child's differences to its parent on 40 tasks; the shift moves each chance of success."""
    draw = random.Random(f"{shift}/{seed}")
    gains = []
    for _ in TASKS:
        chance = draw.betavariate(1.2, 0.8)
        own = min(1.0, max(0.0, chance + shift))
        gains.append(float(draw.random() < own) - float(draw.random() < chance))
    return gains


def dropped(shift: float) -> tuple[float, float]:
    """The share of children that the rule drops, and the share of tasks that they are spared."""
    lost = spared = 0
    for seed in range(CHILDREN):
        gains = gains_of(shift, seed)
        if is_worse(gains, len(TASKS)):  # once dropped, a child stays dropped
            lost += 1
            spared += len(TASKS) - bisect_left(
                range(len(TASKS)), True, key=lambda n, gains=gains: is_worse(gains[:n], len(TASKS))
            )
    return lost / CHILDREN, spared / CHILDREN / len(TASKS)


# Dropped.


def test_of_children_that_are_no_worse_few_are_dropped_however_often_one_looks() -> None:
    assert dropped(0.0)[0] <= ERROR


def test_of_children_that_are_better_next_to_none_is_dropped() -> None:
    assert dropped(0.15)[0] <= 0.02  # about +0.1 in the mean: what succeeds already cannot rise


def test_children_that_are_much_worse_are_dropped_before_they_cost_much() -> None:
    share, spared = dropped(-0.6)
    assert share >= 0.9
    assert spared >= 0.5


def test_differences_on_another_scale_are_measured_by_it() -> None:
    race: Race[RaceEntry] = Race()
    parent = entry(0, dict.fromkeys(range(10), 100.0))
    little = entry(1, dict.fromkeys(range(10), 99.9), parent)
    much = entry(2, dict.fromkeys(range(10), 0.0), parent)
    for one in (parent, little, much):
        race.add(one, list(one.evaluations.values()))
    assert not race.is_worse(little, 40)
    assert race.is_worse(much, 40)


# Who runs on.


def test_who_cannot_catch_up_with_the_leader_may_not_lead() -> None:
    race, parent = raced(0, dict.fromkeys(range(40), 0.3))
    leader = added(race, entry(1, dict.fromkeys(range(40), 0.9), parent))
    behind = added(race, entry(2, dict.fromkeys(range(30), 0.35), parent))
    new = added(race, entry(3, {0: 0.9}, leader))
    assert not race.may_lead(behind, leader)
    assert race.may_lead(new, leader)
    assert race.may_lead(leader, leader)


@pytest.mark.parametrize(
    ("known", "limit", "count"), [(0, 40, 6), (6, 40, 6), (12, 40, 12), (24, 40, 16), (40, 40, 0)]
)
def test_parts_double_up_to_the_limit(known: int, limit: int, count: int) -> None:
    assert next_part(known, 6, limit) == count


def test_scores_that_nobody_knows_count_as_0() -> None:
    some = entry(0, {0: None, 1: 1.0, 2: 0.0})
    assert some.mean() == 1 / 3
    assert some.failing() == ["t0", "t2"]
    assert untried(some, TASKS[:4]) == [TASKS[3]]
    child = entry(1, {0: 1.0, 2: 1.0}, some)
    assert child.differences() == [1.0, 1.0]
    assert child.gained() == "1 instead of its parent's 0 on 2 train tasks."
    unknown = entry(2, {1: None}, some)
    assert unknown.differences() == [-1.0]


# Who is chosen.


def raced(number: int, scores: Mapping[int, float | None]) -> tuple[Race[RaceEntry], RaceEntry]:
    race: Race[RaceEntry] = Race()
    return race, added(race, entry(number, scores))


def added(race: Race[RaceEntry], one: RaceEntry) -> RaceEntry:
    race.add(one, list(one.evaluations.values()))
    return one


def test_val_decides_against_what_only_fits_train() -> None:
    race, first = raced(0, dict.fromkeys(range(8), 0.0))
    fits = added(race, entry(1, dict.fromkeys(range(8), 1.0), first))
    holds = added(race, entry(2, {n: float(n < 6) for n in range(8)}, first))
    base = {f"v{n}": 0.5 for n in range(8)}
    val = {first.id: base, fits.id: dict.fromkeys(base, 0.3), holds.id: dict.fromkeys(base, 0.9)}
    choice = race.choose(first, [fits, holds], val)
    assert choice.entry is holds
    assert (choice.first_val, choice.best_val) == (0.5, 0.9)
    assert race.choose(first, [fits], val).entry is first
    assert race.choose(first, [], val).entry is first


def test_the_luckiest_of_many_equals_is_seldom_chosen_by_much() -> None:
    draw = random.Random(3)
    chosen = 0
    for _ in range(100):
        race, first = raced(0, {n: float(draw.random() < 0.5) for n in range(12)})
        base = {f"v{n}": float(draw.random() < 0.5) for n in range(12)}
        val = {first.id: base}
        others = []
        for number in range(1, 4):
            other = added(race, entry(number, dict(enumerate(first.scores.values())), first))
            val[other.id] = {t: (1 - v if draw.random() < 0.1 else v) for t, v in base.items()}
            others.append(other)
        choice = race.choose(first, others, val)
        chosen += race.standing(choice.entry).mean > race.standing(first).mean + 0.1
    assert chosen < 10


def test_a_child_is_not_measured_by_its_parents_luck() -> None:
    race: Race[RaceEntry] = Race()
    source = entry(0, {n: float(n % 2) for n in range(24)})
    leader = entry(1, {n: float(n > 0) for n in range(8)}, source)
    worse = entry(2, {n: float(n > 2) for n in range(8)}, leader)
    mixed = entry(3, {n: float(n != 3) for n in range(8)}, leader)
    for one in (source, leader, worse, mixed):
        race.add(one, list(one.evaluations.values()))
    assert race.gains(worse) == worse.differences()  # it does nothing better
    assert sum(mixed.differences()) == 0.0
    assert sum(race.gains(mixed)) > 0.1


def test_an_intermediate_choice_takes_a_gain_that_few_val_tasks_do_not_show() -> None:
    def race_of() -> tuple[Race[RaceEntry], RaceEntry, RaceEntry]:
        race: Race[RaceEntry] = Race()
        source = entry(0, {n: float(n % 2) for n in range(30)})
        better = entry(1, {n: float(n % 4 > 0) for n in range(30)}, source)
        for one in (source, better):
            race.add(one, list(one.evaluations.values()))
        return race, source, better

    for is_last in (True, False):
        race, source, better = race_of()
        val = {source.id: {"a": 1.0, "b": 1.0, "c": 0.0}, better.id: {"a": 1.0, "b": 0.0, "c": 0.0}}
        choice = race.choose(source, [better], val, is_last=is_last)
        assert choice.entry is (source if is_last else better)
