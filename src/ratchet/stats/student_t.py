"""Quantiles of Student's t distribution, which the standard library lacks."""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma, log
from statistics import NormalDist

MAX_STEPS = 200
"""Maximum number of steps of the continued fraction, and of the bisection."""

NORMAL_ABOVE = 1e6
"""Degrees of freedom above which the normal distribution's quantile is taken."""


@lru_cache(maxsize=1024)
def t_quantile(probability: float, degrees: float) -> float:
    """The value that a t-distributed number is below with this probability.

    Args:
        probability: In (0, 1).
        degrees: Degrees of freedom, above 0.
    """
    if degrees > NORMAL_ABOVE:
        return NormalDist().inv_cdf(probability)
    if probability == 0.5:
        return 0.0
    if probability < 0.5:
        return -t_quantile(1.0 - probability, degrees)
    low, high = 0.0, 1.0
    while t_cdf(high, degrees) < probability:
        low, high = high, 2.0 * high
    for _ in range(MAX_STEPS):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        if t_cdf(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return high


def t_cdf(value: float, degrees: float) -> float:
    """Probability that a t-distributed number is at most `value`.

    Args:
        value: Any number.
        degrees: Degrees of freedom, above 0.
    """
    outside = _beta(degrees / (degrees + value * value), degrees / 2.0, 0.5)
    return 1.0 - outside / 2.0 if value > 0 else outside / 2.0


def _beta(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function (Numerical Recipes 6.4)."""
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1.0 - x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(x, a, b) / a
    return 1.0 - front * _fraction(1.0 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    result = d
    for m in range(1, MAX_STEPS):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + factor * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + factor / c
            c = c if abs(c) > tiny else tiny
            result *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return result
