"""When a search may end since there is next to nothing left to find."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from ratchet.learn.race import EVEN

NEAR = 0.05
"""What is next to nothing: left of the best score, on average over tasks."""


def is_little(left: Sequence[float]) -> bool:
    """Whether what is left of the best score, by task, is next to nothing on average."""
    return math.fsum(left) <= NEAR * len(left)


def is_within_chance(left: Sequence[float]) -> bool:
    """Whether what is left of the best score is little, and no more than its own standard error.

    No candidate could be told on these tasks to be better.

    Args:
        left: By task; at least two. Where any is negative, the scale has another end: it is not.
    """
    if min(left) < -EVEN or not is_little(left):
        return False
    mean = math.fsum(left) / len(left)
    return mean <= statistics.stdev(left, mean) / math.sqrt(len(left)) + EVEN
