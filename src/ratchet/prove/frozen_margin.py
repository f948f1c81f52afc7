"""Which frozen sets a proof can afford, and the smallest margin that they can hold it to.

A margin is the smallest with which a candidate that is equal on all chosen sets passes all of them
with a probability of `EQUAL_PASSES`. It depends on the number of sets, the draws, the level and the
noise alone, so it is fixed before the first pair. A set is of use only if losing half of its tasks
amounts to the margin or more: as many sets are chosen as keep it below that.

The draws are shared: all sets together may take as many as the proof takes pairs, and one of them
at most twice its share. Sets pass at different times, and what one leaves another takes: with ten
sets at alpha 0.05 and 10 % noise, 200 draws in common hold a margin of 0.4; 20 draws for each set
would let an equal candidate pass all ten with a probability of 0.26.
"""

from __future__ import annotations

import random
from functools import lru_cache
from math import ceil, sqrt

from ratchet.prove.tasks_needed import tasks_needed
from ratchet.stats.eprocess import EProcess
from ratchet.stats.gain import USUAL_GAIN

EQUAL_PASSES = 0.95
"""Probability with which an equal candidate passes all sets that guard a proof."""

USUAL_NOISE = 0.18
"""Variance of the difference of two scores of equal candidates on one task, where 10 % of the
answers come out the other way: 2 x 0.1 x 0.9."""

LEAST_MARGIN = USUAL_GAIN
"""Frozen sets are not held to less than the gain that experiments are planned for."""

SHARES = 2
"""Shares of the common draws that one set may take."""

MOST_DRAWS = 1000
"""Draws from which on a set that cannot guard a proof is given up."""

SIMULATED = 2000
"""Simulated sets behind a margin."""


def half_lost(noise: float) -> float:
    """What losing half of a set's tasks amounts to, in points of the score.

    An answer that is right comes out wrong with the probability p of the noise 2 p (1 - p), and one
    that is lost comes out right as often: half of the tasks lose 1 - 2 p, the root of 1 - 2 noise.
    """
    return sqrt(max(0.0, 1.0 - 2.0 * noise)) / 2.0


def affordable_sets(sets: int, *, alpha: float, draws: int, noise: float = USUAL_NOISE) -> int:
    """How many of so many sets can guard a proof: with one more, none would notice half its tasks.

    Args:
        sets: Number of frozen sets.
        alpha: Level of the experiment.
        draws: Most draws of all sets together.
        noise: Variance of the difference of two scores of equal candidates.
    """
    most = half_lost(noise)

    def holds(count: int) -> bool:
        return most > 0.0 and passing(count, most, alpha=alpha, draws=draws, noise=noise)

    low, high = 0, sets
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def fewest_draws(*, alpha: float, noise: float) -> int | None:
    """The fewest draws, to the next ten, with which one set can guard a proof; None if none do."""
    for draws in range(10, MOST_DRAWS, 10):
        if affordable_sets(1, alpha=alpha, draws=draws, noise=noise):
            return draws
    return None


def frozen_margin(sets: int, *, alpha: float, draws: int, noise: float = USUAL_NOISE) -> float:
    """The smallest margin, in hundredths, that so many sets can be held to.

    Args:
        sets: Number of sets, not above `affordable_sets`.
        alpha: Level of the experiment.
        draws: Most draws of all sets together.
        noise: Variance of the difference of two scores of equal candidates.

    Returns:
        At least `LEAST_MARGIN`, and at most what losing half of the tasks amounts to.
    """
    most = half_lost(noise)
    low, high = round(100 * LEAST_MARGIN), ceil(100 * most)
    while low < high:
        middle = (low + high) // 2
        if passing(sets, middle / 100, alpha=alpha, draws=draws, noise=noise):
            high = middle
        else:
            low = middle + 1
    return min(low / 100, most)


def draws_of_one(sets: int, margin: float, *, alpha: float, draws: int, noise: float) -> int:
    """Most draws of one set: twice its share, and no more than a proof of the margin takes."""
    needed = 2 * tasks_needed(alpha, margin, noise)
    return max(1, min(draws, SHARES * draws // sets, needed))


def passing(sets: int, margin: float, *, alpha: float, draws: int, noise: float) -> bool:
    """Whether an equal candidate passes all sets with a probability of `EQUAL_PASSES`."""
    most = draws_of_one(sets, margin, alpha=alpha, draws=draws, noise=noise)
    times = _passing_times(margin, alpha, most, noise)
    if sum(times) < EQUAL_PASSES:
        return False
    together = [1.0]
    for _ in range(sets):
        together = _sum_of(together, times, draws)
    return sum(together) >= EQUAL_PASSES


@lru_cache(maxsize=64)
def _passing_times(margin: float, alpha: float, draws: int, noise: float) -> list[float]:
    """Probability that a set of an equal candidate passes at a draw, by its number."""
    rng = random.Random(0)  # noqa: S311 - a simulation
    times = [0.0] * (draws + 1)
    for _ in range(SIMULATED):
        process = EProcess(null=-margin, threshold=1.0 / alpha, horizon=draws)
        for number in range(1, draws + 1):
            point = rng.random()
            process.observe(1.0 if point < noise / 2.0 else -1.0 if point < noise else 0.0)
            if process.reached:
                times[number] += 1.0 / SIMULATED
                break
    return times


def _sum_of(left: list[float], right: list[float], most: int) -> list[float]:
    """Probabilities of the sum of two independent numbers, up to a largest one."""
    total = [0.0] * (min(most, len(left) + len(right) - 2) + 1)
    for i, p in enumerate(left):
        if p:
            for j, q in enumerate(right[: len(total) - i]):
                total[i + j] += p * q
    return total
