"""Asymptotic confidence sequences: intervals of a mean that may be looked at after every number.

They hold at all times at once, in the limit of many numbers, and are narrower than exact ones where
a bounded number seldom comes near its bounds. Early, or with few failures, they are too narrow: see
where they are shown for what has to be waited for. Source: Waudby-Smith, Arbour, Sinha, Kennedy and
Ramdas, "Time-uniform central limit theory and asymptotic confidence sequences", Annals of
Statistics 2024.
"""

from __future__ import annotations

from math import log, sqrt


def asymptotic_interval(
    count: int, mean: float, variance: float, *, alpha: float, tuned_for: int
) -> tuple[float, float]:
    """Interval of the mean after `count` numbers.

    Args:
        count: At least 1.
        mean: Of the numbers so far.
        variance: Of the numbers so far.
        alpha: Probability that the interval ever misses the true mean, in the limit.
        tuned_for: Count at which it is narrowest, compared with others of its kind.
    """
    goal = -2.0 * log(alpha)
    scale = (goal + log(goal + 1.0)) / tuned_for
    grown = count * scale + 1.0
    width = sqrt(variance * 2.0 * grown / (count * count * scale) * log(sqrt(grown) / alpha))
    return mean - width, mean + width
