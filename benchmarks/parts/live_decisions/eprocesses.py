"""The e-process of `ratchet.stats` for many runs at once, one array element a run.

The same operations in the same order give the same bits; `tests/prove/test_live_twins.py` compares.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ratchet.stats.eprocess import (
    CAP,
    HEDGE,
    LARGE_GAIN,
    MAX_WEALTH,
    PRIOR_SQUARE,
    PRIOR_WEIGHT,
    SMALL_GAIN,
    STEADY,
)

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class EProcesses:
    """As many e-processes as there are runs; see `EProcess` for the arguments."""

    def __init__(
        self, runs: int, *, null: float = 0.0, threshold: float | Floats, horizon: int
    ) -> None:
        self.threshold = np.broadcast_to(np.asarray(threshold, float), (runs,))
        self.reached = np.zeros(runs, bool)
        self.peak = np.ones(runs)
        self.clock = 0
        self._null, self._cap, self._horizon = null, CAP / (1.0 + null), horizon
        self._hedge = np.full(runs, HEDGE)
        self._small = np.full(runs, STEADY)
        self._large = np.full(runs, STEADY)
        self._squares = np.full(runs, PRIOR_SQUARE * PRIOR_WEIGHT)
        self._seen = np.zeros(runs)

    @property
    def value(self) -> Floats:
        """The current e-values."""
        return self._hedge + self._small + self._large

    def observe(self, observations: Floats, known: Flags | None = None) -> None:
        """Settle the bets on one observation a run; where `known` is false, skip it."""
        betting = ~self.reached if known is None else known & ~self.reached
        deviation = np.sqrt(self._squares / (PRIOR_WEIGHT + self._seen))
        cap = self._cap
        left = self._horizon - self.clock
        hedge: Floats | float = 0.0
        if left > 0:
            goal = self.threshold - self._small - self._large
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(goal > self._hedge, self._hedge / goal, 1.0)
            hedge = np.minimum(np.sqrt(_urgency(share) / left) / deviation, cap)
        small = np.minimum(SMALL_GAIN / deviation, cap)
        large = np.minimum(LARGE_GAIN / deviation, cap)
        excess = observations - self._null
        self._squares = np.where(betting, self._squares + excess * excess, self._squares)
        self._seen += betting
        self.clock += 1
        for name, bet in (("_hedge", hedge), ("_small", small), ("_large", large)):
            wealth = getattr(self, name)
            setattr(self, name, np.where(betting, wealth * (1.0 + bet * excess), wealth))
        value = self.value
        self.peak = np.maximum(self.peak, value)
        self.reached |= value >= self.threshold
        for name in ("_hedge", "_small", "_large"):
            setattr(self, name, np.minimum(getattr(self, name), MAX_WEALTH))


def _urgency(share: Floats) -> Floats:
    fraction, exponent = np.frexp(share)
    doublings = np.where(share < 1e-18, 60.0, 2.0 - 2.0 * fraction - exponent)
    found = 0.6366 + doublings * (0.9 + 0.458 * doublings / (4.943 + doublings))
    return np.where(share >= 1.0, 0.6366, found)
