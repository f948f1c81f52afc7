"""Simulated results of candidates on tasks, with and without wrong labels.

A task's discrimination is log-normal around 1 (sigma 0.5), its difficulty normal around -0.5, and
one success in five needs no ability; so the mean candidate answers about two thirds of the tasks
rightly. Abilities are standard normal. Wrong answers are drawn from each task's own distribution
over four, so that some mistakes are more usual; a wrong label is drawn from the same distribution.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ratchet.curate.refinement.results import Cell, Results
from ratchet.types import Task

WRONG_ANSWERS = 4


class World(NamedTuple):
    """How the tasks are made."""

    discrimination: float = 1.0
    difficulty: float = -0.5
    luck: float = 0.2
    spread: float = 0.5
    """Standard deviation of the logarithm of the discrimination."""


class Drawn(NamedTuple):
    """Candidates that answered tasks."""

    answers: Any
    """Tasks × candidates; 0 is right."""
    mistakes: Any
    """Probability of each wrong answer, by task."""
    ability: Any
    """By candidate."""


class Tasks(NamedTuple):
    """Parameters of tasks."""

    discrimination: Any
    difficulty: Any
    luck: float

    def chances(self, ability: Any) -> Any:
        """Probability of success, tasks × candidates."""
        steep = self.discrimination[:, None] * (ability[None] - self.difficulty[:, None])
        return self.luck + (1.0 - self.luck) / (1.0 + np.exp(-steep))


def tasks_of(rng: np.random.Generator, count: int, world: World) -> Tasks:
    """Draw tasks."""
    slope = world.discrimination * np.exp(rng.normal(0.0, world.spread, count))
    return Tasks(slope, rng.normal(world.difficulty, 1.0, count), world.luck)


def answers_of(rng: np.random.Generator, tasks: int, candidates: int, world: World) -> Drawn:
    """Draw tasks, candidates, and the answers that these give."""
    drawn = tasks_of(rng, tasks, world)
    ability = rng.normal(0.0, 1.0, candidates)
    chance = drawn.chances(ability)
    mistakes = rng.dirichlet(np.full(WRONG_ANSWERS, 0.7), tasks)
    wrong = np.stack([1 + rng.choice(WRONG_ANSWERS, candidates, p=row) for row in mistakes])
    answers = np.where(rng.random(chance.shape) < chance, 0, wrong)
    return Drawn(answers, mistakes, ability)


def results_of(scores: Any, answers: Any | None = None) -> Results:
    """Results with these scores, and these answers if rollouts are to have outputs."""
    tasks = tuple(Task(f"t{row:04}", row, f"answer of {row}") for row in range(len(scores)))
    candidates = tuple(f"c{column:02}" for column in range(len(scores[0])))
    cells = {}
    for row, task in enumerate(tasks):
        for column, candidate in enumerate(candidates):
            given = [] if answers is None else [(str(value := int(answers[row, column])), value)]
            cells[task.id, candidate] = Cell(scores=[float(scores[row, column])], answers=given)
    return Results("accuracy", tasks, candidates, cells)
