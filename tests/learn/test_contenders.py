"""Contenders: compared on shared tasks, predicted where they have not run, chosen with doubt."""

from __future__ import annotations

import random

from ratchet.learn.contenders import Contender, choose, estimate, telling
from ratchet.learn.work import Evaluation
from ratchet.types import Candidate, PromptTemplate, Rollout, Task

TASKS = [Task(f"t{n}", n) for n in range(20)]


def contender(
    number: int, values: dict[int, float | None], parent: Contender | None = None
) -> Contender:
    made = Contender(number, Candidate.of({"p": PromptTemplate(f"v{number}")}), parent)
    made.add(_evaluation(TASKS[n], value) for n, value in values.items())
    return made


def _evaluation(task: Task, value: float | None) -> Evaluation:
    rollout = Rollout.of(task, "c", scope=[], luck=[], queue="q", purpose="", max_attempts=1)
    return Evaluation(task=task, rollout=rollout, value=value, scores={})


def test_what_was_not_run_is_predicted_from_the_parent_by_what_changed() -> None:
    parent = contender(0, {n: float(n % 2) for n in range(20)})
    fixes = contender(1, {0: 1.0, 2: 1.0, 4: 1.0, 1: 1.0}, parent)
    breaks = contender(2, {0: 0.0, 2: 0.0, 4: 0.0, 1: 0.0}, parent)
    same = contender(3, {0: 0.0, 2: 0.0, 4: 0.0, 1: 1.0}, parent)
    values = [estimate(c, TASKS).value for c in (fixes, breaks, same, parent)]
    assert values[0] > 0.7
    assert values[1] < 0.42
    assert abs(values[2] - values[3]) < 0.05
    assert values[3] == 0.5


def test_more_evidence_leaves_less_doubt() -> None:
    parent = contender(0, {n: float(n % 2) for n in range(20)})
    few = contender(1, {0: 1.0, 1: 1.0}, parent)
    more = contender(2, dict.fromkeys(range(12), 1.0), parent)
    every = contender(3, dict.fromkeys(range(20), 1.0), parent)
    doubts = [estimate(c, TASKS).deviation for c in (few, more, every)]
    assert doubts[0] > doubts[1] > doubts[2] == 0.0
    assert estimate(every, TASKS).value == 1.0
    assert estimate(few, TASKS).value < estimate(more, TASKS).value < 1.0


def test_a_line_of_contenders_builds_on_what_each_measured() -> None:
    first = contender(0, dict.fromkeys(range(20), 0.0))
    second = contender(1, dict.fromkeys(range(10), 1.0), first)
    third = contender(2, {0: 1.0, 1: 1.0}, second)
    assert estimate(third, TASKS).value > estimate(second, TASKS[10:]).value
    assert [c.number for c in third.lineage()] == [2, 1, 0]


def test_scores_that_nobody_knows_count_for_nothing() -> None:
    some = contender(0, {0: None, 1: 1.0, 2: 0.0})
    assert some.mean() == 0.5
    assert [e.task.id for e in some.failing()] == ["t2"]
    assert some.untried(TASKS[:4]) == [TASKS[3]]
    assert contender(1, {0: None}).mean() is None
    assert estimate(contender(1, {}), []).measured == 0


def test_telling_tasks_come_first_some_of_them_never_shown() -> None:
    parent = contender(0, {n: float(n % 2) for n in range(12)})
    ordered = telling(parent, TASKS, shown=["t0", "t2", "t4"])
    assert [task.id for task in ordered[:4]] == ["t0", "t6", "t2", "t1"]
    assert len(ordered) == 12
    assert {task.id for task in ordered} == {f"t{n}" for n in range(12)}


def test_the_luckiest_of_many_equals_is_seldom_chosen() -> None:
    luck = random.Random(3)
    chosen = 0
    for _ in range(200):
        first = contender(0, {n: float(luck.random() < 0.5) for n in range(12)})
        base = {f"v{n}": float(luck.random() < 0.5) for n in range(12)}
        others, val = [], {}
        for number in range(1, 4):
            others.append(contender(number, {n: first.values()[f"t{n}"] for n in range(12)}, first))
            flips = {t: (1 - v if luck.random() < 0.1 else v) for t, v in base.items()}
            val[number] = flips
        choice = choose(first, others, val=val, first_val=base)
        chosen += choice.gain > 0.1
    assert chosen < 20


def test_val_counts_more_than_train() -> None:
    first = contender(0, dict.fromkeys(range(8), 0.0))
    fits = contender(1, dict.fromkeys(range(8), 1.0), first)
    holds = contender(2, {n: float(n < 4) for n in range(8)}, first)
    base = {f"v{n}": 0.5 for n in range(8)}
    val = {1: dict.fromkeys(base, 0.3), 2: dict.fromkeys(base, 0.9)}
    assert choose(first, [fits, holds], val=val, first_val=base).contender is holds
    worse = {1: dict.fromkeys(base, 0.0)}
    assert choose(first, [fits], val=worse, first_val=base).contender is first
    assert choose(first, [], val={}, first_val=base).contender is first


def test_a_prediction_never_exceeds_what_scores_can_be() -> None:
    """A child of a good parent is not taken for better than one that was measured to be perfect."""
    first = contender(0, {n: float(n % 4 == 0) for n in range(16)})
    second = contender(1, {n: float(n % 4 != 1) for n in range(16)}, first)
    third = contender(2, dict.fromkeys(range(16), 1.0), second)
    assert estimate(third, TASKS).value <= 1.0
    graded = contender(3, {n: 0.5 + n / 100 for n in range(8)})
    better = contender(4, dict.fromkeys(range(4), 0.9), graded)
    assert estimate(graded, TASKS).value < estimate(better, TASKS).value <= 1.0
