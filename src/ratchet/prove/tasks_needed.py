"""How many test tasks the proof of a gain takes, before anything is known of the candidate."""

from __future__ import annotations

from math import ceil, log, log1p, sqrt

LIKELY = 0.84
"""Normal quantile of a power of 0.8. The e-process then reaches 0.85 to 0.95."""

_STEADY = 1.5
"""Pairs, relative to those of the best constant bet on a gain without any noise."""


def tasks_needed(alpha: float, gain: float, variance: float) -> int:
    """Number of test tasks with which a gain is proved with a probability of about 0.9.

    A bet on a mean of `gain` grows by about gain² / 2(variance + gain²) a pair (Waudby-Smith and
    Ramdas 2023), and has to grow by log(1 / alpha).

    Args:
        alpha: Level of the experiment, in (0, 1).
        gain: Mean difference of the scores, in (0, 1].
        variance: Variance of the difference of a pair's scores.
    """
    wanted = log(1.0 / alpha)
    noisy = (sqrt(2.0 * wanted) + LIKELY) ** 2 * (variance + gain * gain) / (gain * gain)
    return ceil(max(noisy, _STEADY * wanted / log1p(gain)))
