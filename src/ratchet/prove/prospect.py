"""The prospect of a proof: whether continuing is worth its rollouts.

A proof may be ended at any time: an e-process holds at every stopping time (Ville's inequality), so
this changes nothing about how often a promotion is wrong. It decides how many rollouts a candidate
without a gain costs.
"""

from __future__ import annotations

from math import exp, fsum, sqrt
from statistics import NormalDist

from ratchet.prove.comparison import Comparison, lowest_gains
from ratchet.stats.gain import USUAL_GAIN, GainEstimate, second_moment

PROSPECT = 0.15
"""Least prospect, relative to that of the planned gain before the first pair; if a margin must be
proved, to that of an equally good candidate. With 72 test tasks and differences of 0.41 RMS, a
candidate without a gain then takes 21 pairs instead of 71, and a gain of 0.1 is proved in 0.265 of
the cases instead of 0.271; at 0.25, 18 pairs and 0.253."""

_NORMAL = NormalDist()
_QUANTILES = tuple(_NORMAL.inv_cdf((step + 0.5) / 9) for step in range(9))


def has_prospect(comparison: Comparison, learned: float) -> bool:
    """Whether a proof that has begun is worth continuing.

    Args:
        comparison: The proof as far as it is.
        learned: The candidate's gain as learning saw it. It counts as a guess, give or take the
            usual gain, however many tasks are behind it: they chose the candidate.
    """
    if comparison.scored < comparison.plan.min_pairs or comparison.superiority.reached:
        return True  # what may be left to prove then is a guardrail
    gains = [gain for gain in lowest_gains(comparison) if gain is not None]
    plan, estimate = comparison.plan, GainEstimate(learned).seeing(gains)
    deviation = sqrt(second_moment([gain + plan.margin for gain in gains]))
    usual = _chance(plan.margin or USUAL_GAIN, deviation, plan.max_pairs, plan.alpha)
    left = plan.max_pairs - len(comparison.pairs)
    share = min(1.0, plan.alpha * comparison.superiority.value)
    chances = [
        _chance(plan.margin + estimate.gain + quantile * estimate.error, deviation, left, share)
        for quantile in _QUANTILES
    ]
    return fsum(chances) / len(chances) >= PROSPECT * usual


def _chance(gain: float, deviation: float, left: int, share: float) -> float:
    """Chance that an e-process gains the rest of its threshold within this many pairs.

    Its hedge replicates an option: without a gain it reaches the threshold with a probability of
    `share`, what it has of it. So does a Brownian motion that has to reach a certain level, and
    with a gain it drifts towards it (reflection principle).
    """
    if share >= 1.0:
        return 1.0
    if left < 1:
        return 0.0
    level = _NORMAL.inv_cdf(1.0 - max(share, 1e-15) / 2.0)
    drift = gain * sqrt(left) / deviation
    power = min(2.0 * drift * level, 700.0)
    return min(1.0, _NORMAL.cdf(drift - level) + exp(power) * _NORMAL.cdf(-level - drift))
