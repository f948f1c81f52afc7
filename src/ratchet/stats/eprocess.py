"""A betting e-process: evidence that the mean of bounded numbers exceeds a given value.

A bettor starts with wealth 1 and, before every observation, bets a share of it on the observation
being above the null mean. Under the null, no strategy has a positive expected gain, whatever the
stopping time: by Ville's inequality the wealth ever reaches 1 / alpha with probability at most
alpha. The wealth is the e-value. Source: Waudby-Smith and Ramdas, "Estimating means of bounded
random variables by betting", JRSS B 2023.

Validity requires only that each bet is fixed before its observation. The choice of bets determines
the power; see `EProcess`.
"""

from __future__ import annotations

from math import frexp, sqrt
from typing import NamedTuple

from ratchet.types import InputError

HEDGE = 0.7
"""Share of the initial wealth for the strategy that targets the threshold within the horizon."""

STEADY = 0.15
"""Share of the initial wealth for each of the two steady strategies."""

SMALL_GAIN, LARGE_GAIN = 0.1, 0.3
"""Gains, in standard deviations of the differences, for which the steady strategies are optimal."""

CAP = 0.99
"""Largest share of a strategy's wealth that one observation may cost."""

PRIOR_SQUARE = 0.1
PRIOR_WEIGHT = 5.0
"""Prior second moment of the observations, and its weight as a number of observations."""

MAX_WEALTH = 1e100
"""Wealth is capped here: discarding wealth never creates false evidence."""

Bets = tuple[float, float, float]
"""Bets of the hedge and the two steady strategies, as multiples of each one's own wealth."""


class State(NamedTuple):
    """The state of an e-process: `EProcess.resume` continues from it bit for bit."""

    hedge: float
    small: float
    large: float
    squares: float
    seen: int
    clock: int
    peak: float
    reached: bool


START_STATE = State(HEDGE, STEADY, STEADY, PRIOR_SQUARE * PRIOR_WEIGHT, 0, 0, 1.0, False)


class EProcess:
    """Wealth of a bettor against "the mean is at most `null`", one observation at a time.

    The wealth is split over three strategies, each of which risks only its own:

    - The *hedge* replicates an option that pays the missing wealth if the threshold is reached
      within the horizon. Its bet depends on its wealth, the observations left and the second moment
      so far. It detects small gains before the pairs run out.
    - Two *steady* strategies bet the optimal amount for a gain of 0.1 and of 0.3 standard
      deviations or more. They end early if the gain is large, and need no horizon.

    After the threshold is reached all bets are zero: the value stays constant, so that the value at
    any later stop is the evidence by which the null was rejected.

    Only IEEE-exact operations are used (+, -, *, /, square root, comparison), in a fixed order: the
    same observations give the same bits on every machine and Python version.

    Args:
        null: Mean under the null, in (-1, 1).
        threshold: E-value at which the null is rejected: 1 / alpha, above 1.
        horizon: Number of observations, skipped ones included, within which the threshold should be
            reached. It affects only the bets; the e-process stays valid beyond it.

    Raises:
        InputError: An argument is out of range.
    """

    __slots__ = (
        "_cap",
        "_clock",
        "_hedge",
        "_large",
        "_seen",
        "_small",
        "_squares",
        "horizon",
        "null",
        "peak",
        "reached",
        "threshold",
        "value",
    )

    def __init__(self, *, null: float = 0.0, threshold: float, horizon: int) -> None:
        if not -1.0 < null < 1.0:
            raise InputError(f"The null mean {null!r} is not between -1 and 1.")
        if not 1.0 < threshold <= MAX_WEALTH:
            raise InputError(f"The threshold {threshold!r} is not above 1; it is 1 / alpha.")
        if horizon < 1:
            raise InputError(f"The horizon {horizon!r} is not a positive number of observations.")
        self.threshold = threshold
        self.value: float
        """The current e-value."""
        self.peak: float
        """The largest e-value so far; equal to `value` once the threshold is reached."""
        self.reached: bool
        """Whether the null is rejected."""
        self.null = null
        self.horizon = horizon
        self._cap = CAP / (1.0 + null)
        self.resume(START_STATE)

    @property
    def state(self) -> State:
        """The state from which `resume` continues."""
        return State(
            self._hedge,
            self._small,
            self._large,
            self._squares,
            self._seen,
            self._clock,
            self.peak,
            self.reached,
        )

    def resume(self, state: State) -> None:
        """Continue from the state of an e-process with the same arguments."""
        (
            self._hedge,
            self._small,
            self._large,
            self._squares,
            self._seen,
            self._clock,
            self.peak,
            self.reached,
        ) = state
        self.value = self._hedge + self._small + self._large

    def observe(self, observation: float) -> float:
        """Settle the bets on one observation in [-1, 1] and return the e-value."""
        if self.reached:
            return self.value
        return self.settle(observation, self.bets())

    def skip(self) -> None:
        """Advance the horizon by one without an observation."""
        self._clock += 1

    def bets(self) -> Bets:
        """The next bets."""
        cap = self._cap
        deviation = sqrt(self._squares / (PRIOR_WEIGHT + self._seen))
        left = self.horizon - self._clock
        hedge = 0.0
        if left > 0 and not self.reached:
            goal = self.threshold - self._small - self._large
            share = self._hedge / goal if goal > self._hedge else 1.0
            hedge = sqrt(_urgency(share) / left) / deviation
            if hedge > cap:
                hedge = cap
        small = SMALL_GAIN / deviation
        large = LARGE_GAIN / deviation
        return hedge, small if small < cap else cap, large if large < cap else cap

    def settle(self, observation: float, bets: Bets) -> float:
        """Settle bets that were made before the observation was known; return the e-value."""
        hedge, small, large = bets
        excess = observation - self.null
        self._squares += excess * excess
        self._seen += 1
        self._clock += 1
        self._hedge = hedge = self._hedge * (1.0 + hedge * excess)
        self._small = small = self._small * (1.0 + small * excess)
        self._large = large = self._large * (1.0 + large * excess)
        self.value = value = hedge + small + large
        if value > self.peak:
            self.peak = value
            if value >= self.threshold:
                self.reached = True
        if value > MAX_WEALTH:
            self._hedge = min(hedge, MAX_WEALTH)
            self._small = min(small, MAX_WEALTH)
            self._large = min(large, MAX_WEALTH)
        return value


def _urgency(share: float) -> float:
    """Square of the bet that replicates the hedge, times the variance left to come.

    `share` is wealth over goal. A Brownian motion with the variance left reaches a level x standard
    deviations above it with probability 2 (1 - cdf(x)); setting that equal to `share` gives x, and
    the replicating bet is pdf(x) / (1 - cdf(x)). Its square is fitted, to half a percent, by a
    rational function of log2(1 / share), which itself is approximated piecewise linearly. A fit
    suffices, because any bet is valid.
    """
    if share >= 1.0:
        return 0.6366
    if share < 1e-18:
        doublings = 60.0
    else:
        fraction, exponent = frexp(share)
        doublings = 2.0 - 2.0 * fraction - exponent
    return 0.6366 + doublings * (0.9 + 0.458 * doublings / (4.943 + doublings))
