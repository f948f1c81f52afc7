"""An anytime-valid confidence interval of the mean gain, by inverting the bets of the decision.

A mean m is excluded if a bettor against it would have reached the threshold at any time so far. The
bets are those of the decision, so one pass over the observations tests any m, and the wealth
decreases as m grows: the end of the interval is found by bisection.

The interval agrees with the decision. Gains of zero or less are excluded exactly when the candidate
is proved better at alpha, one-sided; above zero, each side is tested at alpha / 2. For every true
gain the probability that it is ever excluded is at most alpha. A candidate that is not proved
better gets an interval that contains zero. Another boundary than zero takes its place where that is
what the decision tests. Source of the partition: Hayter and Hsu, "On the
relationship between stepwise decision procedures and confidence sets", JASA 1994.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ratchet.stats.eprocess import CAP, HEDGE, STEADY, Bets, EProcess

HALVINGS = 24
"""Steps of the bisection over [-1, 1]: the ends are exact to 2**-23, about 1e-7."""

Row = tuple[float, Bets]
"""A difference and the bets that were made before it."""


def interval(
    differences: Sequence[float | None],
    *,
    alpha: float,
    min_gain: float,
    horizon: int | Callable[[int], int],
    boundary: float = 0.0,
    highest: Sequence[float | None] | None = None,
) -> tuple[float, float]:
    """Confidence interval of the mean of `differences`, valid at any stopping time.

    Args:
        differences: Candidate minus baseline in [-1, 1], in order; None for a skipped pair.
        alpha: Probability that the interval ever misses the true mean.
        min_gain: The gain that the upper end targets, as in the futility test.
        horizon: As in the decision, or a function of the number of pairs before a pair; it affects
            only the bets.
        boundary: The largest mean that the decision has to exclude.
        highest: The largest that the differences can be, where missing scores leave that open; by
            default `differences`, which then are the smallest. The mean of whatever the missing
            ones were is covered.

    Returns:
        Lower and upper end. If they cross, which has probability at most alpha, the upper end is
        set to the lower one.
    """
    rising = _rows(differences, null=boundary, threshold=1.0 / alpha, horizon=horizon)
    falling = _rows(
        [None if d is None else -d for d in (differences if highest is None else highest)],
        null=-min_gain,
        threshold=2.0 / alpha,
        horizon=horizon,
    )
    lower = _lower_end(rising, 1.0 / alpha)
    if _excluded(rising, boundary, 1.0 / alpha):
        lower = max(boundary, _lower_end(rising, 2.0 / alpha))
    else:
        lower = min(boundary, lower)
    upper = max(boundary, -_lower_end(falling, 2.0 / alpha))
    return lower, max(lower, upper)


def _rows(
    differences: Sequence[float | None],
    *,
    null: float,
    threshold: float,
    horizon: int | Callable[[int], int],
) -> list[Row]:
    planned = horizon if callable(horizon) else lambda _: horizon
    process = EProcess(null=null, threshold=threshold, horizon=planned(0))
    rows: list[Row] = []
    for number, difference in enumerate(differences):
        process.horizon = planned(number)
        if difference is None:
            process.skip()
            continue
        bets = process.bets()
        process.settle(difference, bets)
        rows.append((difference, bets))
    return rows


def _lower_end(rows: Sequence[Row], threshold: float) -> float:
    """Largest mean found excluded; -1 if none is."""
    low, high = -1.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if _excluded(rows, middle, threshold):
            low = middle
        else:
            high = middle
    return low


def _excluded(rows: Sequence[Row], mean: float, threshold: float) -> bool:
    """Whether the wealth against "at most `mean`" ever reached the threshold.

    A bet too large for this mean is cut down to what keeps wealth positive. Wealth still falls as
    the mean grows: cut or not, each factor does.
    """
    cap = CAP / (1.0 + mean)
    hedge, small, large = HEDGE, STEADY, STEADY
    for difference, (hedge_bet, small_bet, large_bet) in rows:
        excess = difference - mean
        hedge *= 1.0 + (hedge_bet if hedge_bet < cap else cap) * excess
        small *= 1.0 + (small_bet if small_bet < cap else cap) * excess
        large *= 1.0 + (large_bet if large_bet < cap else cap) * excess
        if hedge + small + large >= threshold:
            return True
    return False
