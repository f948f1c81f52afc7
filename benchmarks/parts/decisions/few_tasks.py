"""Experiments on few tasks with an agent whose answers vary from call to call.

A task is solved or not, by chance: the baseline solves it with a probability of its own, between
0.25 and 0.6, and the candidate with another. Repetitions are chosen as `ratchet improve` chooses
them with `repetitions = "auto"`, from one run of both and another of the baseline on val tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ratchet.prove import (
    Comparison,
    ExperimentPlan,
    PairedScore,
    PilotTask,
    choose_repetitions,
    may_repeat,
)

TASKS, VAL = 40, 20
AFFORDABLE = 2000 // (2 * TASKS)
"""Repetitions that the default of [improve.budget] rollouts covers."""


@dataclass(frozen=True)
class FewTasks:
    """One kind of experiment."""

    gain: float = 0.0
    """Mean over tasks of the change in the probability of solving one."""
    spread: float = 0.0
    """The change of a task is `gain` plus or minus this, with equal probability."""
    alpha: float = 0.05
    repetitions: int | None = None
    """A fixed number, or None for "auto"."""
    varies: bool = True
    """Whether answers vary from call to call; else a task is always solved or never."""


def few_tasks(kind: FewTasks, rng: np.random.Generator) -> Comparison:
    """One experiment to its end; the pilot and the choice of repetitions are part of it."""
    plan = ExperimentPlan(alpha=kind.alpha, max_pairs=TASKS)
    times = kind.repetitions or _chosen(kind, rng, plan)
    comparison = Comparison(ExperimentPlan(alpha=kind.alpha, max_pairs=TASKS, repetitions=times))
    for number in range(TASKS):
        baseline, candidate = _answers(kind, rng, times)
        runs = [
            PairedScore(str(number), before, after)
            for before, after in zip(baseline, candidate, strict=True)
        ]
        if comparison.observe(PairedScore.of_repetitions(runs)) is not None:
            break
    comparison.finish()
    return comparison


def _chosen(kind: FewTasks, rng: np.random.Generator, plan: ExperimentPlan) -> int:
    pilot = []
    for _ in range(VAL):
        (one, two), (after, _) = _answers(kind, rng, 2)
        pilot.append(PilotTask((one, two), after))
    differences = [task.candidate - task.baseline[0] for task in pilot]
    if not may_repeat(plan, differences, AFFORDABLE):
        return 1
    return choose_repetitions(plan, pilot, AFFORDABLE).count


def _answers(
    kind: FewTasks, rng: np.random.Generator, times: int
) -> tuple[list[float], list[float]]:
    """Scores of both candidates on a new task."""
    before = rng.uniform(0.25, 0.6)
    after = before + kind.gain + kind.spread * (1.0 if rng.random() < 0.5 else -1.0)
    sides = []
    for chance in (before, min(1.0, max(0.0, after))):
        draws = rng.random(times) if kind.varies else np.repeat(rng.random(), times)
        sides.append((draws < chance).astype(float).tolist())
    return sides[0], sides[1]
