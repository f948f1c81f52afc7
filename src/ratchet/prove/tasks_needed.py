"""How many test tasks the proof of a gain takes, before anything is known about the candidate."""

from __future__ import annotations

from math import ceil, log, log1p, sqrt

from ratchet.types import InputError

POWER_QUANTILE = 0.84
"""Normal quantile of a power of 0.8. The e-process then reaches 0.85 to 0.95."""

PLANNED_VARIANCE = 0.25
"""Assumed variance of differences when collecting test tasks: scores of 0 and 1, half of them
equal for both candidates."""

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
    noisy = (sqrt(2.0 * wanted) + POWER_QUANTILE) ** 2 * (variance + gain * gain) / (gain * gain)
    return ceil(max(noisy, _STEADY * wanted / log1p(gain)))


MIN_MARGIN = 0.02
"""The tightest margin that is used unless a tighter one is asked for: it needs thousands of pairs.
"""

PLANNED = 0.8
"""Share of the pairs that a margin is planned for. With 30 to 200 pairs and variances of 0.05 to
0.2, equal scores then pass with a probability of 0.74 to 0.97; with all pairs it is 0.67 to 0.9."""


def provable_margin(alpha: float, tasks: int, variance: float) -> float:
    """The smallest margin by which equal scores are likely proved no worse, in hundredths.

    Args:
        alpha: Level of the experiment, in (0, 1).
        tasks: Number of pairs that are planned.
        variance: Variance of the difference of a pair's scores.

    Raises:
        InputError: Not even the widest margin can be proved on so few tasks.
    """
    for hundredths in range(round(MIN_MARGIN * 100), 100):
        if tasks_needed(alpha, hundredths / 100, variance) <= PLANNED * tasks:
            return hundredths / 100
    raise InputError(
        f"{tasks} test tasks cannot prove that a candidate is no worse, whatever the margin.",
        hint="Add test tasks: a margin of 0.1 takes about "
        f"{ceil(tasks_needed(alpha, 0.1, variance) / PLANNED)}.",
    )
