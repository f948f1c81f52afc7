"""Results of candidates of different ability on tasks of different difficulty."""

from __future__ import annotations

from typing import Any

import numpy as np

from ratchet.curate.refinement import Results, results_of
from ratchet.types import Rollout, Score, Task

MISTAKES = ("north", "south", "west")


def tasks_of(count: int) -> list[Task]:
    """Tasks whose expected answer is `east`."""
    return [
        Task(f"t{row:03}", f"Where does the sun rise on day {row}?", "east") for row in range(count)
    ]


def drawn(count: int, candidates: int, seed: int = 0, spread: float = 0.0) -> Any:
    """Whether each candidate knows each answer: tasks × candidates; the last candidate is best.

    `spread` is the standard deviation of the logarithm of the tasks' discrimination.
    """
    rng = np.random.default_rng(seed)
    ability = np.linspace(-1.5, 1.5, candidates)
    slope = 1.5 * np.exp(spread * rng.normal(0.0, 1.0, count))
    steep = slope[:, None] * (ability[None] - rng.normal(-0.3, 0.8, count)[:, None])
    return rng.random(steep.shape) < 1 / (1 + np.exp(-steep))


def ran(
    tasks: list[Task], knows: Any, *, outputs: bool = True, seed: int = 0
) -> list[tuple[Rollout, list[Score], list[float]]]:
    """Rollouts in which a candidate answers `east` if it knows, else one of the mistakes."""
    rng = np.random.default_rng(seed + 1)
    found = []
    for row, task in enumerate(tasks):
        for column, right in enumerate(knows[row]):
            output = "east" if right else MISTAKES[rng.integers(len(MISTAKES))]
            score = Score(
                evaluator="exact_match", version="1", value=float(output == task.expected)
            )
            found.append(
                (
                    Rollout(
                        id=f"{task.id}/{column}",
                        queue="run",
                        candidate_id=f"c{column:02}",
                        task_id=task.id,
                        input=task.input,
                        expected=task.expected,
                        status="succeeded",
                        output=output if outputs else None,
                    ),
                    [score],
                    [],
                )
            )
    return found


def results(tasks: list[Task], knows: Any, *, outputs: bool = True) -> Results:
    """The results of these rollouts."""
    return results_of(tasks, ran(tasks, knows, outputs=outputs))
