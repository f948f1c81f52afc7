"""Which losses of a shorter prompt are more than chance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import fsum, sqrt
from statistics import fmean

import msgspec

from ratchet.learn.race import SCORE_TOLERANCE
from ratchet.stats.gain import may_gain


class Chance(msgspec.Struct, frozen=True):
    """The chance loss of prompts that say the same, on a task where the source scored above 0."""

    mean: float = 0.0
    square: float = 0.0
    """Mean square of the loss."""

    @classmethod
    def of(cls, differences: Sequence[float]) -> Chance:
        """The estimate from the scores of equivalent prompts minus the source's.

        Args:
            differences: One for each task that the source scored on.
        """
        losses = [max(0.0, -difference) for difference in differences]
        return cls(fmean(losses), fmean(loss * loss for loss in losses)) if losses else cls()

    def exceeded(self, differences: Collection[float]) -> bool:
        """Whether the loss is more than chance explains, within its standard deviation.

        Args:
            differences: Scores minus the source's, on tasks that the source scored on.
        """
        lost = fsum(max(0.0, -difference) for difference in differences)
        count = len(differences)
        return lost > count * self.mean + sqrt(count * self.square) + SCORE_TOLERANCE


def no_worse(differences: Iterable[float]) -> bool:
    """Whether a candidate is not below the source by more than a standard error.

    One task that is lost where all others are equal is a loss of exactly that, and counts.
    """
    values = [
        0.0 if abs(difference) <= SCORE_TOLERANCE else difference for difference in differences
    ]
    return not any(values) or may_gain([difference - SCORE_TOLERANCE for difference in values])
