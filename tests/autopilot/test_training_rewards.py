"""Rollouts that a model learns from: what an outage spoils is made again, and nothing is spared."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from ratchet.autopilot.training_rewards import evaluate_to_train, rewards
from ratchet.learn import BudgetExhausted, Evaluation
from ratchet.learn.work import LabSettings
from ratchet.types import Candidate, Model, Task

TASKS = [Task("a", "?"), Task("b", "?")]
WORK = LabSettings(run_id="run", stage="learn", queue="q", objective="s", seed=0, max_attempts=1)
BASELINE = Candidate.of({"model": Model("local")})


class Outage:
    """A lab in which task `b` has no score in the first rollouts.

    Args:
        spoilt: Number of rollouts of `b` without a score.
        left: Rollouts that the budget allows.
    """

    def __init__(self, spoilt: int, left: int = 100) -> None:
        self.spoilt = spoilt
        self.left = left
        self.ids: list[str] = []

    async def evaluate(
        self, candidate: Candidate, tasks: Sequence[Task], *, repetition: int, training: str
    ) -> list[Evaluation]:
        if len(tasks) > self.left:
            raise BudgetExhausted("The rollouts are spent.")
        self.left -= len(tasks)
        return [self._evaluation(task, repetition, training) for task in tasks]

    def _evaluation(self, task: Task, repetition: int, training: str) -> Evaluation:
        rollout = WORK.rollout(task, BASELINE.id, repetition, training=training)
        self.ids.append(rollout.id)
        value: float | None = 0.75
        if task.id == "b" and self.spoilt:
            self.spoilt, value = self.spoilt - 1, None
        return Evaluation(task=task, rollout=rollout, value=value, scores={})


def values(lab: Any, repetition: int = 0) -> list[float | None]:
    made = evaluate_to_train(lab, BASELINE, TASKS, repetition=repetition, training="train-00000")
    return [evaluation.value for evaluation in asyncio.run(made)]


def test_a_rollout_that_an_outage_spoilt_is_made_again() -> None:
    lab = Outage(spoilt=2)
    assert values(lab) == [0.75, 0.75]
    assert len(set(lab.ids)) == len(lab.ids) == 4  # each is a rollout of its own


def test_it_is_made_again_twice_at_most_and_within_the_budget() -> None:
    lab = Outage(spoilt=10)
    assert values(lab) == [0.75, None]
    assert len(lab.ids) == 4
    assert values(Outage(spoilt=10, left=3)) == [0.75, None]


def test_rollouts_made_again_are_no_others_repetitions() -> None:
    lab = Outage(spoilt=10)
    for repetition in range(6):
        values(lab, repetition)
    assert len(set(lab.ids)) == len(lab.ids)


def test_a_rollout_without_a_finite_score_gets_the_lowest_reward() -> None:
    (known,) = asyncio.run(
        Outage(0).evaluate(BASELINE, TASKS[:1], repetition=0, training="train-00000")
    )

    def batch(*scores: float | None) -> list[Evaluation]:
        return [msgspec.structs.replace(known, value=score) for score in scores]

    assert rewards(batch(0.5, None, 1.0, float("nan"))) == [0.5, 0.0, 1.0, 0.0]
    assert rewards(batch(-2.0, None, 1.0)) == [-2.0, -2.0, 1.0]
    assert rewards(batch(None, None)) == [0.0, 0.0]
