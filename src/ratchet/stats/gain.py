"""What differences in score say of a candidate's gain, before it is proved.

A mean of 24 tasks says next to nothing about a gain of 0.1, so all tasks that both candidates ran
count, of train and of val. None of it proves anything: the scores chose the candidates, and flatter
them. It only decides what is worth more rollouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt

import msgspec

from ratchet.stats.eprocess import PRIOR_SQUARE, PRIOR_WEIGHT

USUAL_GAIN = 0.1
"""The gain that experiments are planned for, in points of the score."""


class GainEstimate(msgspec.Struct, frozen=True):
    """A candidate's gain over the source, as a normal distribution.

    Before any difference is seen it is 0, give or take the usual gain: so the best of many
    candidates is not taken for as good as it looks, and few tasks do not make it look certain.
    """

    gain: float = 0.0
    """Its mean."""
    error: float = USUAL_GAIN
    """Its standard deviation."""
    tasks: int = 0
    """Number of differences behind it."""

    def seeing(self, differences: Sequence[float]) -> GainEstimate:
        """The estimate after further differences, candidate minus source on one task each."""
        count = len(differences)
        if not count:
            return self
        prior, new = 1.0 / self.error**2, count / second_moment(differences)
        mean = (prior * self.gain + new * fsum(differences) / count) / (prior + new)
        return GainEstimate(mean, sqrt(1.0 / (prior + new)), self.tasks + count)


def may_gain(differences: Sequence[float]) -> bool:
    """Whether a candidate may be better than the source: it is no worse by a standard error.

    Args:
        differences: Its score minus the source's, on each task that both have run.
    """
    count = len(differences)
    if not any(differences):
        return False  # nothing tells it from the source
    mean = fsum(differences) / count
    squares = fsum((difference - mean) ** 2 for difference in differences)
    error = sqrt(squares / (count - 1) / count) if count > 1 else 0.0
    return mean + error > 0.0


def is_clear(differences: Sequence[float]) -> bool:
    """Whether a gain was seen: the mean difference exceeds its standard error.

    For changes that cost something wherever they are shipped, such as the tokens of examples.
    """
    return any(differences) and not may_gain([-difference for difference in differences])


def second_moment(differences: Sequence[float]) -> float:
    """Mean square of differences, as an e-process estimates it for its bets; never 0."""
    squares = fsum(difference * difference for difference in differences)
    return (PRIOR_SQUARE * PRIOR_WEIGHT + squares) / (PRIOR_WEIGHT + len(differences))
