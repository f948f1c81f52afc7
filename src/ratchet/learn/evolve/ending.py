"""Stopping rules: whether a search has too little left to gain to continue."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from ratchet.learn.race import EVEN

NEAR = 0.05
"""Mean gap to the best score that counts as negligible."""


def is_little(left: Sequence[float]) -> bool:
    """Whether the mean gap to the best score is negligible."""
    return math.fsum(left) <= NEAR * len(left)


def is_within_chance(left: Sequence[float]) -> bool:
    """Whether the mean gap to the best score is small and within its own standard error.

    If so, no candidate could be shown to be better on these tasks.

    Args:
        left: Gap by task, for at least two tasks. False if any is negative: the scale has no known
            end then.
    """
    if min(left) < -EVEN or not is_little(left):
        return False
    mean = math.fsum(left) / len(left)
    return mean <= statistics.stdev(left, mean) / math.sqrt(len(left)) + EVEN
