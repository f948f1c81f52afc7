"""Detection of a fall of a mean at an unknown time, with a bounded probability of false alarms.

For each of several bets a Shiryaev-Roberts statistic is kept: with every number x it becomes

    M = (1 + M) (1 + bet (mean - x))

which is the wealth of bettors against "the mean has not fallen", a new one of whom begins with each
number. While the mean of each number, given those before it, is at least `mean`, the expected M
after n numbers is at most n, and M plus the count of numbers to come is a supermartingale. So M, or
an average of several, reaches c within N numbers with probability at most N / c, and the expected
count of numbers before it does is at least c. Source: Shin, Ramdas and Rinaldo, "E-detectors: a
nonparametric framework for sequential change detection", New England Journal of Statistics in Data
Science 2023.
"""

from __future__ import annotations

import msgspec

from ratchet.stats.eprocess import MAX_WEALTH
from ratchet.types import InputError

BETS = (0.02, 0.05, 0.1, 0.2, 0.5)
"""Shares of the largest bet that leaves wealth above 0 whatever the number is. The larger ones find
large falls, or falls of numbers that hardly vary; the smaller ones find small falls."""


class FallDetector(msgspec.Struct, kw_only=True):
    """Evidence that the mean of numbers in [0, 1] has fallen below `mean`."""

    mean: float
    """In (0, 1)."""
    count: int = 0
    total: float = 0.0
    """Sum of the numbers."""
    sums: list[float] = msgspec.field(default_factory=lambda: [0.0] * len(BETS))
    """M by bet."""

    def __post_init__(self) -> None:
        if not 0.0 < self.mean < 1.0:
            raise InputError(f"A mean of {self.mean!r} in [0, 1] cannot be watched for a fall.")

    @property
    def value(self) -> float:
        """The average M."""
        total = 0.0
        for term in self.sums:
            total += term
        return total / len(self.sums)

    def observe(self, number: float) -> None:
        """Add a number in [0, 1]."""
        largest = 1.0 / (1.0 - self.mean)
        fall = self.mean - number
        self.sums = [
            min((1.0 + old) * (1.0 + share * largest * fall), MAX_WEALTH)
            for share, old in zip(BETS, self.sums, strict=True)
        ]
        self.count += 1
        self.total += number
