"""How often each task of an experiment is run, decided before its first pair.

An agent whose answers vary from call to call adds noise to every pair. With k repetitions a pair's
difference is that of two means of k, and that part of its variance is divided by k. The gains of
tasks still differ from one another: no number of repetitions replaces tasks.

The number is chosen from a pilot on val tasks alone. It is thus a constant of the experiment, and
each pair is what it was: independent, within [-1, 1], with the same mean. See docs/decisions.md,
"Repetitions of a task".
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from math import sqrt

import msgspec

from ratchet.prove.plan import ExperimentPlan
from ratchet.stats.eprocess import EProcess
from ratchet.stats.gain import USUAL_GAIN
from ratchet.types.wording import counted

REPETITIONS_CONSIDERED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)

CONCEDED = 0.05
"""Power, as a probability, that is given up for fewer repetitions."""

MIN_PILOT_TASKS = 5
"""Number of tasks below which a pilot tells too little."""

MANY_TASKS = 1000
"""Number of test tasks above which none is repeated."""

SPARE_PAIRS_SHARE = 0.2
"""Share of pairs that would be spare, for the planned gain, if there were no noise."""

SIMULATED_EXPERIMENTS = 200
"""Simulated experiments behind an estimate of power."""


class RepetitionPlan(msgspec.Struct, frozen=True):
    """How often each test task is run with each of the two candidates, and why."""

    count: int = 1
    reason: str = ""
    """A clause; empty if there is nothing to say."""

    @property
    def sentence(self) -> str:
        """The plan as a sentence; empty without a reason."""
        times = {1: "once", 2: "twice"}.get(self.count, f"{self.count} times")
        if not self.reason:
            return ""
        return f"Each test task is run {times} with each candidate: {self.reason}."


class PilotTask(msgspec.Struct, frozen=True):
    """Scores on one val task."""

    baseline: tuple[float, float]
    """Two runs of the baseline."""
    candidate: float
    """One run of the candidate."""


def may_repeat(plan: ExperimentPlan, differences: Sequence[float], most: int) -> bool:
    """Whether a pilot could make repetitions worth their cost.

    Compares the experiment without repetitions to the best that they could do: all of the spread of
    the differences is the agent's own noise, and `most` repetitions divide it.

    Args:
        plan: The experiment's plan.
        differences: Candidate minus baseline on val tasks, one run each.
        most: Largest affordable number of repetitions.
    """
    if most < 2 or len(differences) < MIN_PILOT_TASKS or plan.max_pairs > MANY_TASKS:
        return False
    gain, spread = _gain(plan, differences), _variance(differences)
    best = _power(plan, gain, spread / most)
    return best - _power(plan, gain, spread) > CONCEDED


def choose_repetitions(
    plan: ExperimentPlan, pilot: Sequence[PilotTask], most: int
) -> RepetitionPlan:
    """The fewest repetitions whose estimated power is within 0.05 of the most that is possible.

    The variance of a pair's difference is estimated as s + w / k. The agent's own noise w is the
    mean squared difference between two runs of the baseline on a task. What remains of the variance
    of the differences between candidate and baseline is s, how much gains differ between tasks;
    its standard error is subtracted, since too many repetitions cost rollouts, too few the proof.

    The gain that is planned for is the one seen on val less twice its standard error, and at least
    the usual 0.1, since more tasks find smaller ones at less cost, and what these tasks could prove
    with a fifth of them to spare if there were no noise.

    Args:
        plan: The experiment's plan.
        pilot: Scores on val tasks; none of a test task.
        most: Largest affordable number of repetitions.

    Returns:
        A number from 1 to `most`, with the reason.
    """
    if most < 2 or len(pilot) < MIN_PILOT_TASKS:
        return RepetitionPlan()
    differences = [task.candidate - task.baseline[0] for task in pilot]
    squares = [(task.baseline[0] - task.baseline[1]) ** 2 for task in pilot]
    noise = _mean(squares)
    if noise == 0.0:
        return RepetitionPlan(
            1,
            "two runs of the baseline had equal scores on all of"
            f" {counted(len(pilot), 'val task')}",
        )
    mean_difference = _mean(differences)
    excess = [
        (d - mean_difference) ** 2 - square for d, square in zip(differences, squares, strict=True)
    ]
    between = max(0.0, _mean(excess) - _error(excess))
    gain = _gain(plan, differences)
    steps = [
        *(step for step in REPETITIONS_CONSIDERED if step < most),
        min(most, REPETITIONS_CONSIDERED[-1]),
    ]

    @lru_cache
    def power(step: int) -> float:
        return _power(plan, gain, between + noise / step)

    once, most_power = power(1), power(steps[-1])
    count = steps[bisect_left(steps, most_power - CONCEDED, key=power)]
    varies = f"two runs of the baseline on a val task differ by {sqrt(noise):.2g} (RMS)"
    if count == 1:
        return RepetitionPlan(1, f"{varies}, yet repetitions would hardly help the proof")
    return RepetitionPlan(
        count,
        f"{varies}, so {counted(plan.max_pairs, 'task')} run once would prove"
        f" {f'equal scores no worse by {gain:.2g}' if plan.margin else f'a gain of {gain:.2g}'}"
        f" with probability {once:.2f}; with repetitions it is {power(count):.2f}",
    )


def _gain(plan: ExperimentPlan, differences: Sequence[float]) -> float:
    """The planned gain; with a margin, the gain of an equally good candidate above it."""
    if plan.margin:
        return plan.margin
    low, high = 0.0, 1.0
    enough = max(1, int((1.0 - SPARE_PAIRS_SHARE) * plan.max_pairs))
    for _ in range(12):
        middle = (low + high) / 2.0
        if _pairs_without_noise(plan, middle) <= enough:
            high = middle
        else:
            low = middle
    return max(high, USUAL_GAIN, plan.min_gain, _mean(differences) - 2.0 * _error(differences))


def _pairs_without_noise(plan: ExperimentPlan, gain: float) -> int:
    process = _process(plan)
    for number in range(1, plan.max_pairs + 1):
        process.observe(gain)
        if process.reached:
            return number
    return plan.max_pairs + 1


def _power(plan: ExperimentPlan, gain: float, variance: float) -> float:
    """Estimated probability that the gain is proved; uses the same draws for each variance."""
    deviation = sqrt(variance)
    reached = 0
    for draws in _draws(plan.max_pairs):
        process = _process(plan)
        for draw in draws:
            process.observe(max(-1.0, min(1.0, gain + deviation * draw)))
            if process.reached:
                reached += 1
                break
    return reached / SIMULATED_EXPERIMENTS


@lru_cache(maxsize=1)
def _draws(pairs: int) -> list[list[float]]:
    rng = random.Random(0)  # noqa: S311 - a simulation
    return [[rng.gauss(0.0, 1.0) for _ in range(pairs)] for _ in range(SIMULATED_EXPERIMENTS)]


def _process(plan: ExperimentPlan) -> EProcess:
    return EProcess(threshold=1.0 / plan.alpha, horizon=plan.max_pairs)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)


def _error(values: Sequence[float]) -> float:
    """Standard error of the mean."""
    return sqrt(_variance(values) / len(values))
