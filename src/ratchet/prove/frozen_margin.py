"""Which frozen sets a proof can afford, and the margin that they hold the candidate to.

An answer comes out the other way with some probability p, by chance. A task that is lost is right
with p, where it was right with 1 - p: losing half of a set's tasks costs 0.5 - p. A margin m thus
notices it as long as p is at most 0.5 - m. The margin is the smallest with which a candidate that
is equal on all chosen sets passes all of them with a probability of `EQUAL_PASSES`, at that most
noise: so it holds at any lower one, and no noise has to be measured. It depends on the number of
sets, the draws and the level alone, and is fixed before the first pair. As many sets are chosen as
can be held to `MAX_FROZEN_MARGIN`.

The draws are shared: all sets together may take as many as the proof takes pairs, and one of them
at most twice its share. Sets pass at different times, and what one leaves another takes: with ten
sets at alpha 0.05 and 10 % noise, 200 draws in common hold a margin of 0.4; 20 draws for each set
would let an equal candidate pass all ten with a probability of 0.26.
"""

from __future__ import annotations

import random
from functools import lru_cache

from ratchet.prove.tasks_needed import tasks_needed
from ratchet.stats.eprocess import EProcess
from ratchet.stats.gain import USUAL_GAIN

EQUAL_PASSES = 0.95
"""Probability that an equally good candidate passes all sets that guard a proof."""

MAX_FROZEN_MARGIN = 0.4
"""The loss from failing half of a set's tasks, with 10 % noise."""

MIN_FROZEN_MARGIN = USUAL_GAIN
"""Frozen sets never demand a smaller margin than the gain that experiments are planned for."""

MAX_SHARES = 2
"""Maximum draws of a single set, in multiples of its equal share of the common draws."""

MAX_DRAWS = 1000
"""Upper end of the search for the fewest sufficient draws."""

SIMULATED_SETS = 2000
"""Simulated sets behind a margin."""


def most_noise(margin: float) -> float:
    """The probability that an answer flips by chance, for which a margin is planned."""
    return 0.5 - margin


def affordable_sets(sets: int, *, alpha: float, draws: int) -> int:
    """How many of these sets can guard a proof, each with a margin of at most `MAX_FROZEN_MARGIN`.

    Args:
        sets: Number of frozen sets.
        alpha: Level of the experiment.
        draws: Maximum number of draws of all sets together.
    """
    low, high = 0, sets
    while low < high:
        middle = (low + high + 1) // 2
        if passing(middle, MAX_FROZEN_MARGIN, alpha=alpha, draws=draws):
            low = middle
        else:
            high = middle - 1
    return low


def fewest_draws(*, alpha: float) -> int:
    """The fewest draws, rounded up to ten, with which one set can guard a proof."""
    return next(
        draws for draws in range(10, MAX_DRAWS, 10) if affordable_sets(1, alpha=alpha, draws=draws)
    )


def frozen_margin(sets: int, *, alpha: float, draws: int) -> float:
    """The smallest margin, in hundredths, that this many sets can be held to.

    Args:
        sets: Number of sets, not above `affordable_sets`.
        alpha: Level of the experiment.
        draws: Maximum number of draws of all sets together.
    """
    low, high = round(100 * MIN_FROZEN_MARGIN), round(100 * MAX_FROZEN_MARGIN)
    while low < high:
        middle = (low + high) // 2
        if passing(sets, middle / 100, alpha=alpha, draws=draws):
            high = middle
        else:
            low = middle + 1
    return low / 100


def draws_of_one(sets: int, margin: float, *, alpha: float, draws: int) -> int:
    """Maximum number of draws of one set: twice its share, but no more than proving the margin
    takes."""
    needed = 2 * tasks_needed(alpha, margin, _variance(margin))
    return max(1, min(draws, MAX_SHARES * draws // sets, needed))


def passing(sets: int, margin: float, *, alpha: float, draws: int) -> bool:
    """Whether an equally good candidate passes all sets with a probability of `EQUAL_PASSES`."""
    import numpy as np

    most = draws_of_one(sets, margin, alpha=alpha, draws=draws)
    times = _passing_times(margin, alpha, most)
    if sum(times) < EQUAL_PASSES:
        return False
    together = np.ones(1)
    for _ in range(sets):
        together = np.convolve(together, times)[: draws + 1]
    return float(together.sum()) >= EQUAL_PASSES


def _variance(margin: float) -> float:
    """Variance of the difference of two scores of equally good candidates, with the most noise."""
    noise = most_noise(margin)
    return 2.0 * noise * (1.0 - noise)


@lru_cache(maxsize=64)
def _passing_times(margin: float, alpha: float, draws: int) -> list[float]:
    """Probability that a set of an equally good candidate passes at each draw, by its number."""
    variance = _variance(margin)
    rng = random.Random(0)  # noqa: S311 - a simulation
    times = [0.0] * (draws + 1)
    for _ in range(SIMULATED_SETS):
        process = EProcess(null=-margin, threshold=1.0 / alpha, horizon=draws)
        for number in range(1, draws + 1):
            point = rng.random()
            process.observe(1.0 if point < variance / 2.0 else -1.0 if point < variance else 0.0)
            if process.reached:
                times[number] += 1.0 / SIMULATED_SETS
                break
    return times
