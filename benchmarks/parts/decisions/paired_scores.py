"""Simulated scores of a baseline and a candidate on the same tasks, and how scores go missing.

All arrays have the shape (experiments, tasks), or any other; tasks are in random order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
Shape = int | tuple[int, int]

DEVIATION, CORRELATION = 0.2, 0.6
MOST = 0.9
"""The highest chance of the baseline to solve a task: a gain of 0.1 never exceeds 1."""
NORMAL = NormalDist()


def graded(rng: np.random.Generator, shape: Shape, gain: float) -> tuple[Scores, Scores]:
    """Noisy scores in [0, 1], as a judge gives them: means 0.5 and 0.5 + gain."""
    shared = math.sqrt(CORRELATION) * rng.standard_normal(shape)
    own = math.sqrt(1.0 - CORRELATION)

    def side(mean: float) -> Scores:
        noise = shared + own * rng.standard_normal(shape)
        return np.clip(latent_mean(mean) + latent_deviation() * noise, 0.0, 1.0)

    return side(0.5), side(0.5 + gain)


def right_or_wrong(rng: np.random.Generator, shape: Shape, gain: float) -> tuple[Scores, Scores]:
    """Answers that are right (1) or wrong (0), and vary from call to call.

    A task is solved with a chance of its own, most often near 0 or near MOST, and by the candidate
    with one that is higher by `gain`.
    """
    chance = MOST * rng.beta(0.5, 0.5, shape)
    before = rng.random(shape) < chance
    after = rng.random(shape) < chance + gain
    return before.astype(float), after.astype(float)


KINDS: dict[str, Callable[[np.random.Generator, Shape, float], tuple[Scores, Scores]]] = {
    "graded": graded,
    "right_or_wrong": right_or_wrong,
}


def lose_at_random(
    rng: np.random.Generator, baseline: Scores, candidate: Scores, share: float
) -> tuple[Scores, Scores]:
    """Each score of either side is missing with the same probability."""
    lost = rng.random((2, *baseline.shape)) < share
    return np.where(lost[0], np.nan, baseline), np.where(lost[1], np.nan, candidate)


def lose_worst(
    rng: np.random.Generator, baseline: Scores, candidate: Scores, share: float
) -> tuple[Scores, Scores]:
    """The candidate's scores are missing on the tasks where it loses the most."""
    order = _from_lowest(rng, candidate - baseline)
    return baseline, _without(candidate, order[:, : int(share * order.shape[1])])


def lose_best(
    rng: np.random.Generator, baseline: Scores, candidate: Scores, share: float
) -> tuple[Scores, Scores]:
    """The candidate's are missing on the tasks where it wins most, the baseline's on the next."""
    order = _from_lowest(rng, baseline - candidate)
    count = int(share * order.shape[1])
    return _without(baseline, order[:, count : 2 * count]), _without(candidate, order[:, :count])


def _from_lowest(rng: np.random.Generator, difference: Scores) -> NDArray[np.int64]:
    """The tasks of each experiment from the lowest difference on, equal ones in random order."""
    order: NDArray[np.int64] = np.lexsort((rng.random(difference.shape), difference), axis=1)
    return order


def _without(scores: Scores, tasks: NDArray[np.int64]) -> Scores:
    kept = scores.copy()
    np.put_along_axis(kept, tasks, np.nan, axis=1)
    return kept


def clipped_moments(mean: float, deviation: float) -> tuple[float, float]:
    """Mean and standard deviation of a normal variable after clipping to [0, 1]."""
    low, high = -mean / deviation, (1.0 - mean) / deviation
    inside = NORMAL.cdf(high) - NORMAL.cdf(low)
    slope = NORMAL.pdf(low) - NORMAL.pdf(high)
    above = 1.0 - NORMAL.cdf(high)
    first = mean * inside + deviation * slope + above
    second = (
        (mean * mean + deviation * deviation) * inside
        + 2.0 * mean * deviation * slope
        + deviation * deviation * (low * NORMAL.pdf(low) - high * NORMAL.pdf(high))
        + above
    )
    return first, math.sqrt(second - first * first)


@lru_cache
def latent_deviation() -> float:
    """Standard deviation before clipping that gives DEVIATION after it, at mean 0.5."""
    return solve(lambda deviation: clipped_moments(0.5, deviation)[1], DEVIATION, 0.1, 0.4)


@lru_cache
def latent_mean(mean: float) -> float:
    """Mean before clipping that gives exactly `mean` after it."""
    return solve(lambda m: clipped_moments(m, latent_deviation())[0], mean, -0.5, 1.5)


def solve(function: Callable[[float], float], target: float, low: float, high: float) -> float:
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if function(middle) < target else (low, middle)
    return low
