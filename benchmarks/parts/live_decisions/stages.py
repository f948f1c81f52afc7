"""Shadow, canary and watch for many runs at once: `ratchet.prove` with arrays, one element a run.

Guardrails, missing scores and groups' own evidence are left out. `tests/prove/test_live_twins.py`
holds that the rest is equal to the tests of `ratchet.prove`, bit for bit.
"""

from __future__ import annotations

import numpy as np

from ratchet.prove import CanaryPlan, ShadowPlan, WatchPlan
from ratchet.prove.canary import MIN_OUTCOMES, TUNED_FOR
from ratchet.stats.change import BETS
from ratchet.stats.sample_ratio import CONCENTRATION
from ratchet.stats.weighted_effect import GROUP_WEIGHT, MEAN, MEAN_WEIGHT, RIDGE

from .eprocesses import EProcesses, Flags, Floats

VERDICTS = ("", "pass", "harm", "hold")
PASS, HARM, HOLD = 1, 2, 3


class Ends:
    """Verdict of each run, 0 while there is none, and the number of observations it took."""

    def __init__(self, runs: int) -> None:
        self.verdict = np.zeros(runs, np.int8)
        self.at = np.full(runs, np.inf)

    def end(self, verdict: int, where: Flags, number: int) -> None:
        """End the runs where a verdict is due and there is none yet."""
        due = where & (self.verdict == 0)
        self.verdict[due] = verdict
        self.at[due] = number

    def share(self, verdict: int) -> float:
        """Share of runs that ended so."""
        return float(np.mean(self.verdict == verdict))

    def median(self, verdict: int) -> float | None:
        """Median over all runs of the observations until this verdict; None if most have another.

        Runs that ended otherwise count as never.
        """
        found = float(np.median(np.where(self.verdict == verdict, self.at, np.inf)))
        return found if np.isfinite(found) else None


class Shadows:
    """As many shadow stages as there are runs, of pairs that all have scores."""

    def __init__(self, runs: int, plan: ShadowPlan, needed: Floats | None = None) -> None:
        self.plan = plan
        self.ends = Ends(runs)
        self.count = 0
        threshold = 1.0 / plan.alpha if needed is None else needed
        self.passing = EProcesses(
            runs, null=-plan.margin, threshold=threshold, horizon=plan.max_pairs
        )
        self.harming = EProcesses(runs, threshold=1.0 / plan.harm_alpha, horizon=plan.harm_pairs)

    def add(self, differences: Floats) -> None:
        """Add a pair a run."""
        self.count += 1
        self.passing.observe(differences)
        self.harming.observe(-differences)
        self.ends.end(HARM, self.harming.reached, self.count)
        if self.count >= self.plan.min_pairs:
            self.ends.end(PASS, self.passing.reached, self.count)


class _Means:
    """Sums of numbers, and of numbers by group."""

    def __init__(self, runs: int, groups: int) -> None:
        self.count = 0
        self.total = np.zeros(runs)
        self.counts = np.zeros((groups, runs))
        self.totals = np.zeros((groups, runs))
        self._runs = np.arange(runs)

    def centers(self, group: np.ndarray | None) -> Floats:
        mean = (MEAN_WEIGHT * MEAN + self.total) / (MEAN_WEIGHT + self.count)
        if group is None:
            return mean
        counts, totals = self.counts[group, self._runs], self.totals[group, self._runs]
        own = (GROUP_WEIGHT * mean + totals) / (GROUP_WEIGHT + counts)
        return np.where(counts > 0, own, mean)

    def add(self, numbers: Floats, group: np.ndarray | None) -> None:
        self.count += 1
        self.total += numbers
        if group is not None:
            self.counts[group, self._runs] += 1
            self.totals[group, self._runs] += numbers


class WeightedEffects:
    """As many weighted effects as there are runs."""

    def __init__(self, runs: int, share: float, groups: int = 0) -> None:
        self.bound = max(1.0 / share, 1.0 / (1.0 - share))
        self._weights = (1.0 / (1.0 - share) / self.bound, 1.0 / share / self.bound)
        self.numbers, self.covariates = _Means(runs, groups), _Means(runs, groups)
        self.squares, self.products = np.full(runs, RIDGE), np.zeros(runs)

    def observe(
        self,
        numbers: Floats,
        treated: Flags,
        group: np.ndarray | None = None,
        covariate: Floats | None = None,
    ) -> Floats:
        """Add a unit a run; returns their effects divided by `bound`."""
        base = self.numbers.centers(group)
        predicted = base
        if covariate is not None:
            away = covariate - self.covariates.centers(group)
            predicted = base + self.products / self.squares * away
            self.squares = self.squares + away * away
            self.products = self.products + away * (numbers - base)
            self.covariates.add(covariate, group)
        predicted = np.minimum(np.maximum(predicted, 0.0), 1.0)
        excess = (numbers - predicted) * np.where(treated, self._weights[1], self._weights[0])
        self.numbers.add(numbers, group)
        return np.where(treated, excess, -excess)


class SampleRatios:
    """As many sample ratio tests as there are runs."""

    def __init__(self, runs: int, share: float) -> None:
        self.value = np.ones(runs)
        self._share, self._units, self._first = share, 0, np.zeros(runs)

    def observe(self, first: Flags) -> None:
        """Add a unit a run."""
        share = np.where(first, self._share, 1.0 - self._share)
        before = np.where(first, self._first, self._units - self._first)
        predicted = (CONCENTRATION * share + before) / (CONCENTRATION + self._units)
        self.value = self.value * (predicted / share)
        self._units += 1
        self._first += first


class Canaries:
    """As many canaries as there are runs, without guardrails, of units that all have scores."""

    def __init__(
        self, runs: int, plan: CanaryPlan, groups: int = 0, needed: Floats | None = None
    ) -> None:
        self.plan = plan
        self.ends = Ends(runs)
        self.count = 0
        self.effect = WeightedEffects(runs, plan.share, groups)
        self.ratio = SampleRatios(runs, plan.share)
        threshold = 1.0 / plan.alpha if needed is None else needed
        null = plan.min_effect / self.effect.bound
        self.passing = EProcesses(runs, null=null, threshold=threshold, horizon=plan.max_units)
        self.harming = EProcesses(runs, threshold=plan.harm_needed, horizon=plan.harm_units)
        self.arms = np.zeros((2, 2, runs))
        """Count and sum of scores, by arm."""
        self.sums = np.zeros((2, runs))
        """Sum and sum of squares of the observations."""

    def add(
        self,
        scores: Floats,
        treated: Flags,
        group: np.ndarray | None = None,
        covariate: Floats | None = None,
    ) -> Floats:
        """Add a unit a run; returns their effects divided by the bound."""
        self.count += 1
        self.ratio.observe(treated)
        gain = self.effect.observe(scores, treated, group, covariate)
        self.passing.observe(gain)
        self.harming.observe(-gain)
        for arm, here in enumerate((~treated, treated)):
            self.arms[arm, 0] += here
            self.arms[arm, 1] += scores * here
        self.sums[0] += gain
        self.sums[1] += gain * gain
        self.ends.end(HARM, self.harming.reached, self.count)
        self.ends.end(HOLD, self.ratio.value >= self.plan.hold_needed, self.count)
        if self.count >= self.plan.min_units:
            self.ends.end(PASS, self.passing.reached, self.count)
        return gain

    def difference_over_error(self, effect: float) -> Floats:
        """Difference of the arms' means less `effect`, in standard errors, of scores of 0 and 1."""
        counts, totals = self.arms[:, 0], self.arms[:, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            means = totals / counts
            error = np.sqrt((means * (1.0 - means) / counts).sum(axis=0))
            return (means[1] - means[0] - effect) / error

    def interval(self) -> tuple[Floats, Floats, Flags]:
        """Lower and upper ends of the shown interval, and in which runs it is shown."""
        counts, totals = self.arms[:, 0], self.arms[:, 1]
        shown = (np.minimum(totals, counts - totals) >= MIN_OUTCOMES).all(axis=0)
        mean = self.sums[0] / self.count
        variance = np.maximum(self.sums[1] / self.count - mean * mean, 0.0)
        goal = -2.0 * np.log(self.plan.alpha)
        scale = (goal + np.log(goal + 1.0)) / TUNED_FOR
        grown = self.count * scale + 1.0
        spread = 2.0 * grown / (self.count**2 * scale) * np.log(np.sqrt(grown) / self.plan.alpha)
        width = np.sqrt(variance * spread)
        return (mean - width) * self.effect.bound, (mean + width) * self.effect.bound, shown


class Watches:
    """As many watches of one score as there are runs, without a control share."""

    def __init__(self, runs: int, plan: WatchPlan) -> None:
        self.plan = plan
        self.alarm_at = np.full(runs, np.inf)
        self.count = 0
        self._mean = plan.metrics[0].worst_mean
        self._sums = np.zeros((len(BETS), runs))

    @property
    def value(self) -> Floats:
        """The average of the detectors' sums."""
        total = np.zeros(self._sums.shape[1])
        for each in self._sums:
            total = total + each
        return total / len(BETS)

    def add(self, scores: Floats) -> None:
        """Add an outcome a run."""
        self.count += 1
        fall = self._mean - scores
        largest = 1.0 / (1.0 - self._mean)
        for place, share in enumerate(BETS):
            self._sums[place] = (1.0 + self._sums[place]) * (1.0 + share * largest * fall)
        due = (self.value >= self.plan.needed) & np.isinf(self.alarm_at)
        self.alarm_at[due] = self.count
        self._sums[:, due] = 0.0  # its watch is over
