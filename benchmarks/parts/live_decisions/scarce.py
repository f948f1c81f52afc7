"""Stages whose scores are partly missing, and canaries on feedback, for many runs at once.

The same as `ratchet.prove` with arrays, one element a run, without groups and covariates.
`tests/prove/test_live_twins.py` holds that they are equal, bit for bit.
"""

from __future__ import annotations

import numpy as np

from ratchet.prove import CanaryPlan, ShadowPlan
from ratchet.stats.sample_ratio import CONCENTRATION
from ratchet.stats.weighted_effect import MEAN, MEAN_WEIGHT
from ratchet.types.feedback import BAD_BELOW

from .eprocesses import EProcesses, Flags, Floats
from .stages import HARM, HOLD, PASS, Ends, SampleRatios


class PartialEffects:
    """As many weighted effects as there are runs, of numbers that are partly known."""

    def __init__(self, runs: int, share: float) -> None:
        self.bound = max(1.0 / share, 1.0 / (1.0 - share))
        self._weights = (1.0 / (1.0 - share) / self.bound, 1.0 / share / self.bound)
        self._count, self._total = np.zeros(runs), np.zeros(runs)

    def observe(self, numbers: Floats, treated: Flags, known: Flags) -> tuple[Floats, Floats]:
        """Add a unit a run; returns the bounds of their effects divided by `bound`."""
        predicted = (MEAN_WEIGHT * MEAN + self._total) / (MEAN_WEIGHT + self._count)
        weights = np.where(treated, self._weights[1], self._weights[0])

        def effects(unknown: Floats) -> Floats:
            effect = (np.where(known, numbers, unknown) - predicted) * weights
            return np.where(treated, effect, -effect)

        worst = np.where(treated, 0.0, 1.0)
        low, high = effects(worst), effects(1.0 - worst)
        self._count += known
        self._total += np.where(known, numbers, 0.0)
        return low, high


class UnscoredShadows:
    """As many shadow stages as there are runs."""

    def __init__(self, runs: int, plan: ShadowPlan) -> None:
        self.plan = plan
        self.ends = Ends(runs)
        self.count = 0
        self._scored = np.zeros(runs)
        self.passing = EProcesses(
            runs, null=-plan.margin, threshold=1.0 / plan.alpha, horizon=plan.max_pairs
        )
        self.harming = EProcesses(runs, threshold=1.0 / plan.harm_alpha, horizon=plan.harm_pairs)

    def add(self, baseline: Floats, candidate: Floats, known: Flags) -> None:
        """Add a pair a run; the candidate's score is used where it is known."""
        self.count += 1
        self._scored += known
        self.passing.observe(np.where(known, candidate, 0.0) - baseline)
        self.harming.observe(-(np.where(known, candidate, 1.0) - baseline))
        self.ends.end(HARM, self.harming.reached, self.count)
        enough = self._scored >= self.plan.min_pairs
        self.ends.end(PASS, self.passing.reached & enough, self.count)


class UnscoredCanaries:
    """As many canaries as there are runs, without guardrails."""

    def __init__(self, runs: int, plan: CanaryPlan) -> None:
        self.plan = plan
        self.ends = Ends(runs)
        self.count = 0
        self._scored = np.zeros(runs)
        self.effect = PartialEffects(runs, plan.share)
        self.ratio = SampleRatios(runs, plan.share)
        self.missing = PartialRatios(runs, plan.share)
        self.passing = EProcesses(
            runs,
            null=plan.min_effect / self.effect.bound,
            threshold=1.0 / plan.alpha,
            horizon=plan.max_units,
        )
        self.harming = EProcesses(runs, threshold=plan.harm_needed, horizon=plan.harm_units)

    def add(self, scores: Floats, treated: Flags, known: Flags) -> None:
        """Add a unit a run; its score is used where it is known."""
        self.count += 1
        self._scored += known
        self.ratio.observe(treated)
        self.missing.observe(treated, ~known)
        low, high = self.effect.observe(scores, treated, known)
        self.passing.observe(low)
        self.harming.observe(-high)
        self.ends.end(HARM, self.harming.reached, self.count)
        held = np.maximum(self.ratio.value, self.missing.peak) >= self.plan.hold_needed
        self.ends.end(HOLD, held, self.count)
        enough = self._scored >= self.plan.min_units
        self.ends.end(PASS, self.passing.reached & enough, self.count)


class FeedbackCanaries:
    """As many canaries on feedback as there are runs, without guardrails of their own."""

    def __init__(self, runs: int, plan: CanaryPlan) -> None:
        assert plan.feedback is not None
        self.plan, self.ends, self.count = plan, Ends(runs), 0
        self._answered = np.zeros(runs)
        self.ratio = SampleRatios(runs, plan.share)
        self.effect, self.negatives, self.coverages = (
            PartialEffects(runs, plan.share) for _ in range(3)
        )
        bound, enough = self.effect.bound, 1.0 / plan.alpha
        negative = plan.feedback.negative_margin / bound
        coverage = plan.feedback.coverage_margin / bound

        def before_the_end(null: float, threshold: float) -> EProcesses:
            return EProcesses(runs, null=null, threshold=threshold, horizon=plan.max_units)

        def soon(null: float) -> EProcesses:
            return EProcesses(runs, null=null, threshold=plan.harm_needed, horizon=plan.harm_units)

        self.passing = before_the_end(plan.min_effect / bound, enough)
        self.harming = soon(0.0)
        self.no_more_negative = before_the_end(-negative, enough)
        self.more_negative = soon(negative)
        self.not_lower, self.not_higher = (before_the_end(-coverage, enough) for _ in range(2))
        self.lower, self.higher = (
            before_the_end(coverage, 2.0 * plan.hold_needed) for _ in range(2)
        )
        self._margin = plan.min_effect / bound

    def add(self, scores: Floats, treated: Flags, answered: Flags) -> None:
        """Add a unit a run; its score is its feedback where there is an answer."""
        self.count += 1
        self._answered += answered
        everyone = np.ones(len(scores), bool)
        self.ratio.observe(treated)
        gain, _ = self.effect.observe(scores, treated, answered)
        self.passing.observe(np.where(answered, gain, self._margin))
        self.harming.observe(np.where(answered, -gain, 0.0))
        negative = (answered & (scores < BAD_BELOW)).astype(float)
        worse, _ = self.negatives.observe(negative, treated, everyone)
        self.no_more_negative.observe(-worse)
        self.more_negative.observe(worse)
        more, _ = self.coverages.observe(answered.astype(float), treated, everyone)
        self.not_lower.observe(more)
        self.not_higher.observe(-more)
        self.lower.observe(-more)
        self.higher.observe(more)
        self.ends.end(HARM, self.harming.reached | self.more_negative.reached, self.count)
        held = self.ratio.value >= self.plan.hold_needed
        self.ends.end(HOLD, held | self.lower.reached | self.higher.reached, self.count)
        proved = self.passing.reached & self.no_more_negative.reached
        equal = self.not_lower.reached & self.not_higher.reached
        enough = self._answered >= self.plan.min_units
        self.ends.end(PASS, proved & equal & enough, self.count)


class PartialRatios:
    """As many sample ratio tests as there are runs, of units that are partly counted."""

    def __init__(self, runs: int, share: float) -> None:
        self.peak = np.ones(runs)
        self._share, self._value = share, np.ones(runs)
        self._units, self._first = np.zeros(runs), np.zeros(runs)

    def observe(self, first: Flags, counted: Flags) -> None:
        """Add a unit a run where it is counted."""
        share = np.where(first, self._share, 1.0 - self._share)
        before = np.where(first, self._first, self._units - self._first)
        predicted = (CONCENTRATION * share + before) / (CONCENTRATION + self._units)
        self._value = np.where(counted, self._value * (predicted / share), self._value)
        self._units += counted
        self._first += first & counted
        self.peak = np.maximum(self.peak, self._value)
