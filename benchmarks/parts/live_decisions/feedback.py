"""How often a canary on people's feedback passes, rightly and wrongly."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from ratchet.prove import CanaryPlan, FeedbackRule
from ratchet.prove.feedback import GAIN

from .eprocesses import EProcesses, Flags, Floats
from .scarce import FeedbackCanaries, PartialEffects
from .stages import PASS


class People(NamedTuple):
    """What people think of an arm's answers, and who of them says so."""

    shares: tuple[float, float, float]
    """Of units whose feedback would be `low`, `middling` and 1."""
    speak: tuple[float, float, float]
    """Probabilities of saying so."""


class Case(NamedTuple):
    """A candidate that must not pass, as one thing about it is exactly as bad as that."""

    baseline: People
    candidate: People
    low: float = 0.0
    middling: float = 0.6
    min_effect: float = -0.03


HALF = (0.5, 0.5, 0.5)

BOUNDED = {
    "worse by the margin": Case(People((0.0, 0.5, 0.5), HALF), People((0.0, 0.575, 0.425), HALF)),
    "more negative feedback": Case(People((0.1, 0.9, 0.0), HALF), People((0.16, 0.0, 0.84), HALF)),
    "another coverage": Case(
        People((0.4, 0.0, 0.6), HALF), People((0.2, 0.0, 0.8), (0.55, 0.55, 0.55))
    ),
    "another coverage within the margin": Case(
        People((0.0, 0.5, 0.5), (0.2, 0.2, 0.2)),
        People((0.0, 0.5, 0.5), (0.22, 0.22, 0.22)),
        min_effect=0.0,
    ),
    "silence by answer": Case(
        People((0.4, 0.0, 0.6), (0.3, 0.0, 0.15)),
        People((0.4, 0.0, 0.6), (0.3, 0.0, 0.15)),
        min_effect=0.0,
    ),
}
"""Candidates that pass with probability alpha at most. By the last one's answers, and by the
baseline's, the discontented speak twice as often as the content."""

UNBOUNDED = {
    "silence by arm": Case(
        People((0.4, 0.0, 0.6), (0.2, 0.2, 0.2)),
        People((0.4, 0.0, 0.6), (0.1, 0.0, 0.8 / 3)),
        min_effect=0.0,
    ),
    "leaving without a word": Case(
        People((0.4, 0.0, 0.6), (0.2, 0.2, 0.2)),
        People((0.4, 0.0, 0.6), (0.1, 0.0, 0.2)),
        min_effect=0.0,
    ),
}
"""Candidates without any gain, whose discontented users speak half as often as the baseline's. With
the first, as many more of the content speak: what is seen is what a better one would show."""


COVERAGES = (0.1, 0.2, 0.5, 0.8)
"""Shares of units with feedback, at which the units that are told have to suffice."""


def passes(rng: np.random.Generator, runs: int, alpha: float, case: Case) -> float:
    """Share of canaries of a case that pass."""
    return _ended(rng, runs, feedback_plan(alpha, case), case).ends.share(PASS)


def feedback_power(rng: np.random.Generator, runs: int, alpha: float) -> dict[str, float | None]:
    """Canaries at a coverage of 20 % whose candidate's feedback is better by 0.2."""
    case = better(0.2, coverage=0.2)
    ends = _ended(rng, runs, feedback_plan(alpha, case), case).ends
    return {"passed": ends.share(PASS), "median to pass": ends.median(PASS)}


def told_units(rng: np.random.Generator, runs: int, alpha: float, coverage: float) -> float:
    """Share of canaries that pass within as many units as were told, with the gain of that."""
    case = better(GAIN, coverage=coverage)
    plan = feedback_plan(alpha, case)
    assert plan.units_needed is not None
    plan = msgspec.structs.replace(plan, max_units=plan.units_needed)
    return _ended(rng, runs, plan, case).ends.share(PASS)


def silent_bets(rng: np.random.Generator, runs: int, alpha: float) -> dict[str, float]:
    """Share of gains of 0.05 at a coverage of 20 % that are proved among those who speak, and how
    many if silent units were skipped."""
    case = better(0.05, coverage=0.2)
    plan = feedback_plan(alpha, case)
    effect = PartialEffects(runs, plan.share)
    null = plan.min_effect / effect.bound
    bets, skipping = (
        EProcesses(runs, null=null, threshold=1.0 / alpha, horizon=plan.max_units) for _ in range(2)
    )
    for _ in range(plan.max_units):
        scores, treated, answered = unit(rng, runs, case)
        gain, _ = effect.observe(scores, treated, answered)
        bets.observe(np.where(answered, gain, null))
        skipping.observe(gain, answered)
    return {"proved": float(bets.reached.mean()), "skipped": float(skipping.reached.mean())}


def better(gain: float, *, coverage: float) -> Case:
    """A candidate whose share of content people is 0.6, or 0.6 - `gain` with the baseline."""
    speak = (coverage, coverage, coverage)
    before = People((0.4 + gain, 0.0, 0.6 - gain), speak)
    return Case(before, People((0.4, 0.0, 0.6), speak))


def _ended(rng: np.random.Generator, runs: int, plan: CanaryPlan, case: Case) -> FeedbackCanaries:
    test = FeedbackCanaries(runs, plan)
    for _ in range(plan.max_units):
        test.add(*unit(rng, runs, case))
    return test


def feedback_plan(alpha: float, case: Case) -> CanaryPlan:
    """The plan at the baseline's coverage, with as many units as `[canary]` gives by default."""
    coverage = float(np.dot(case.baseline.shares, case.baseline.speak))
    plan = CanaryPlan(
        alpha=alpha, min_effect=case.min_effect, feedback=FeedbackRule(coverage=coverage)
    )
    assert plan.units_needed is not None
    return msgspec.structs.replace(plan, max_units=max(plan.max_units, plan.units_needed))


def unit(rng: np.random.Generator, runs: int, case: Case) -> tuple[Floats, Flags, Flags]:
    """Feedback, arm, and whether there is any feedback, of one unit a run."""
    treated = rng.random(runs) < 0.5
    shares = np.where(treated[:, None], case.candidate.shares, case.baseline.shares)
    speak = np.where(treated[:, None], case.candidate.speak, case.baseline.speak)
    kind = (rng.random(runs)[:, None] >= shares.cumsum(axis=1)[:, :2]).sum(axis=1)
    scores = np.array([case.low, case.middling, 1.0])[kind]
    return scores, treated, rng.random(runs) < speak[np.arange(runs), kind]
