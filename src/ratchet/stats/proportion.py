"""Wilson's interval of a proportion."""

from __future__ import annotations

import math

Z_95 = 1.959963984540054
"""Quantile of the normal distribution for a two-sided 95 % interval."""


def wilson(successes: float, n: int) -> tuple[float, float]:
    """The 95 % score interval of a proportion (Wilson 1927).

    Args:
        successes: Number of successes; ties may count a half.
        n: Number of trials; without any, the interval is [0, 1].
    """
    if n == 0:
        return 0.0, 1.0
    share, square = successes / n, Z_95**2
    centre = (share + square / (2 * n)) / (1 + square / n)
    half = Z_95 / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)
