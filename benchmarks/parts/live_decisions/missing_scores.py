"""How often shadow and canary decide wrongly when scores are missing where that helps most.

A false promotion is of a candidate that is exactly as bad as must not pass, most of whose wrong
answers have no score; in a canary, the baseline lacks as many scores of right ones. A false harm is
of a candidate that is as good, and lacks scores of right answers. The candidates to promote are
also decided with unscored answers left out, as long as at most a tenth of them is.
"""

from __future__ import annotations

import numpy as np

from ratchet.prove import CanaryPlan, ShadowPlan
from ratchet.prove.missing import SKIP_LIMIT

from .eprocesses import EProcesses, Flags, Floats
from .scarce import PartialEffects, UnscoredCanaries, UnscoredShadows
from .stages import HARM, PASS

BASE = 0.9
WRONG_LOST = 0.7
"""Share of wrong answers without a score."""
RIGHT_LOST = 0.1
"""Share of right answers without a score: as many answers, about."""


class LeftOut:
    """As many tests as there are runs that leave out what has no score."""

    def __init__(self, runs: int, *, null: float, alpha: float, horizon: int, fewest: int) -> None:
        self.passed = np.zeros(runs, bool)
        self._passing = EProcesses(runs, null=null, threshold=1.0 / alpha, horizon=horizon)
        self._scored, self._count, self._fewest = np.zeros(runs), 0, fewest

    def add(self, gains: Floats, known: Flags) -> None:
        """Add a pair or unit a run."""
        self._passing.observe(gains, known)
        self._count += 1
        self._scored += known
        enough = self._count - self._scored <= SKIP_LIMIT * self._count
        self.passed |= self._passing.reached & enough & (self._scored >= self._fewest)


def shadow_missing(rng: np.random.Generator, runs: int, alpha: float) -> dict[str, float]:
    """Shares of shadow stages that promote or stop wrongly."""
    plan = ShadowPlan(alpha=alpha)
    test = UnscoredShadows(runs, plan)
    left_out = LeftOut(
        runs, null=-plan.margin, alpha=alpha, horizon=plan.max_pairs, fewest=plan.min_pairs
    )
    harmless = UnscoredShadows(runs, ShadowPlan(alpha=1e-9, harm_alpha=alpha))
    for _ in range(plan.max_pairs):
        before, equal = (answers(rng, BASE, runs) for _ in range(2))
        after = answers(rng, BASE - plan.margin, runs)
        known = scored(rng, after, wrong_lost=WRONG_LOST)
        test.add(before, after, known)
        left_out.add(after - before, known)
        harmless.add(before, equal, scored(rng, equal, right_lost=RIGHT_LOST))
    return {
        "promoted": test.ends.share(PASS),
        "promoted if left out": float(left_out.passed.mean()),
        "harm": harmless.ends.share(HARM),
    }


def canary_missing(
    rng: np.random.Generator, runs: int, alpha: float, units: int
) -> dict[str, float]:
    """Shares of canaries that promote or stop wrongly."""
    plan = CanaryPlan(alpha=alpha, max_units=units)
    test, effect = UnscoredCanaries(runs, plan), PartialEffects(runs, plan.share)
    left_out = LeftOut(
        runs,
        null=plan.min_effect / effect.bound,
        alpha=alpha,
        horizon=units,
        fewest=plan.min_units,
    )
    harmless = UnscoredCanaries(
        runs, CanaryPlan(alpha=1e-9, harm_alpha=alpha, max_units=units, hold_alpha=1e-12)
    )
    for _ in range(units):
        treated = rng.random(runs) < plan.share
        scores = answers(rng, np.where(treated, BASE + plan.min_effect, BASE), runs)
        known = np.where(
            treated,
            scored(rng, scores, wrong_lost=WRONG_LOST),
            scored(rng, scores, right_lost=RIGHT_LOST),
        )
        test.add(scores, treated, known)
        left_out.add(effect.observe(scores, treated, known)[0], known)
        equal = answers(rng, BASE, runs)
        known = np.where(
            treated,
            scored(rng, equal, right_lost=RIGHT_LOST),
            scored(rng, equal, wrong_lost=WRONG_LOST),
        )
        harmless.add(equal, treated, known)
    return {
        "promoted": test.ends.share(PASS),
        "promoted if left out": float(left_out.passed.mean()),
        "harm": harmless.ends.share(HARM),
    }


def answers(rng: np.random.Generator, rate: float | Floats, runs: int) -> Floats:
    """Scores of answers that are right with this probability."""
    return (rng.random(runs) < rate).astype(float)


def scored(
    rng: np.random.Generator, scores: Floats, *, wrong_lost: float = 0.0, right_lost: float = 0.0
) -> Flags:
    """Which answers have a score."""
    return rng.random(len(scores)) >= np.where(scores == 0.0, wrong_lost, right_lost)
