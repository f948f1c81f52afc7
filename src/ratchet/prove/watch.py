"""The watch after a release: raises an alarm when live scores, errors, latency or cost get worse.

Each metric has a detector of a fall (`ratchet.stats.change`), and their average decides, so that
several metrics share one probability of a false alarm. A share of the traffic may stay on what was
released before, as a control. If that got worse too, it is the world that has changed, or the
model's provider, and rolling back would not help.

An outcome without a score counts as the best for an alarm, which says "it got worse", and as the
worst for a pass: see `ratchet.prove.missing`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import get_args

import msgspec

from ratchet.prove.live_metrics import SCORE, UNITS, check_metric, live_value, share_of
from ratchet.prove.missing import MissingRule
from ratchet.prove.plan_checks import check_counts, check_numbers
from ratchet.stats.agreement import wilson
from ratchet.stats.change import FallDetector
from ratchet.stats.weighted_effect import Moments
from ratchet.types import InputError, LiveOutcome, StageDecision, StageVerdict


class WatchedMetric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of live outcomes, and the mean that counts as unchanged.

    Raises:
        InputError: The metric is unknown, or a number is out of range.
    """

    metric: str = SCORE
    """`score`, `errors`, `latency` or `cost`."""
    expected: float
    """Mean if nothing has changed, in the metric's unit, estimated cautiously: a lower bound of the
    score, an upper bound of the others, such as the end of an interval."""
    tolerance: float = 0.0
    """How much worse a mean may be without an alarm, in the metric's unit."""
    ceiling: float = 1.0
    """Higher values count as this one, in the metric's unit; 1 for score and errors."""

    def __post_init__(self) -> None:
        check_metric(self.metric)
        check_numbers(self, 1e-12, 1e12, "ceiling")
        check_numbers(self, 0.0, 1e12, "expected", "tolerance")
        if not 0.0 < self.worst_mean < 1.0:
            raise InputError(
                f"The watch of {self.metric!r} expects {self.expected:g} with a tolerance of "
                f"{self.tolerance:g}, so no value between 0 and {self.ceiling:g} could count as "
                "worse.",
                hint="Lower the tolerance, or raise the ceiling.",
            )

    @property
    def worst_mean(self) -> float:
        """The worst mean that raises no alarm, on the scale where 1 is best and 0 is worst."""
        share = self.expected / self.ceiling
        good = share if self.metric == SCORE else 1.0 - share
        return good - self.tolerance / self.ceiling


class WatchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a watch, fixed before its first outcome.

    Raises:
        InputError: A value is out of range, or there is nothing to watch.
    """

    metrics: tuple[WatchedMetric, ...]
    alpha: float = 0.05
    """Probability of a false alarm within `outcomes`, over all metrics together."""
    outcomes: int = 10_000
    """Outcomes of the release after which the watch ends."""
    control_outcomes: int = 500
    """Outcomes of the control share within which it raises a false alarm of its own with
    probability `alpha`. The fewer, the sooner a change in the world is distinguished from a bad
    release."""
    missing: MissingRule = "worst"
    """What a missing score counts as. skip: nothing, for scores from people's feedback, which is
    missing by design."""

    def __post_init__(self) -> None:
        check_numbers(self, 1e-12, 0.5, "alpha")
        check_counts(self, 1, 10**9, "outcomes", "control_outcomes")
        if self.missing not in get_args(MissingRule):
            raise InputError(
                f"WatchPlan: missing = {self.missing!r} is neither 'worst' nor 'skip'."
            )
        names = [metric.metric for metric in self.metrics]
        if not names:
            raise InputError("WatchPlan: there is no metric to watch.")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"WatchPlan: metric {twice[0]!r} is given twice.")

    @property
    def needed(self) -> float:
        """Statistic at which an alarm is raised."""
        return self.outcomes / self.alpha

    @property
    def control_needed(self) -> float:
        """Statistic at which the control share counts as worse, too."""
        return self.control_outcomes / self.alpha


def expected_mean(
    metric: str, outcomes: Iterable[LiveOutcome], *, ceiling: float = 1.0, level: float = 0.95
) -> float:
    """The mean of earlier outcomes, estimated cautiously: what a `WatchedMetric` may expect.

    It is the worse end of Wilson's interval, which for values in [0, 1] other than 0 and 1 is wider
    than it has to be.

    Args:
        metric: `score`, `errors`, `latency` or `cost`.
        outcomes: Of the candidate in a canary, or of the release before it; without later ones.
        ceiling: Values above it count as this, in the metric's unit.
        level: Confidence of the interval.

    Returns:
        In the metric's unit.

    Raises:
        InputError: No outcome has a value, or the metric is unknown.
    """
    check_metric(metric)
    moments = Moments()
    for outcome in outcomes:
        if (value := live_value(outcome, metric)) is not None:
            moments.add(share_of(value, ceiling))
    if not moments.count:
        raise InputError(
            f"No earlier outcome has a value of {metric!r}.",
            hint="Watch another metric, or wait for traffic.",
        )
    low, high = wilson(moments.total, moments.count, level)
    return (low if metric == SCORE else high) * ceiling


class WatchedTraffic(msgspec.Struct, kw_only=True):
    """The detectors of one share of the traffic, one for each metric."""

    detectors: list[FallDetector]
    outcomes: int = 0
    missing: int = 0
    """Outcomes without a score."""
    peak: float = 0.0
    """The largest average of the detectors so far."""
    at_worst: list[FallDetector] | None = None
    """The detectors with each missing score counted as the worst; None while no score is missing.
    """
    peak_at_worst: float = 0.0
    """The largest average of these so far."""

    @classmethod
    def begin(cls, plan: WatchPlan) -> WatchedTraffic:
        """Detectors without outcomes."""
        return cls(detectors=[FallDetector(mean=metric.worst_mean) for metric in plan.metrics])

    @property
    def value(self) -> float:
        """The average of the detectors."""
        return _average(self.detectors)

    def add(self, plan: WatchPlan, outcome: LiveOutcome) -> None:
        """Add an outcome; a metric without a value stays as it is, except for the score."""
        self.outcomes += 1
        for place, watched in enumerate(plan.metrics):
            value = live_value(outcome, watched.metric)
            if value is not None:
                share = share_of(value, watched.ceiling)
                self._observe(place, share if watched.metric == SCORE else 1.0 - share)
            elif watched.metric == SCORE:
                self.missing += 1
                if plan.missing == "worst":
                    if self.at_worst is None:
                        self.at_worst = copy.deepcopy(self.detectors)
                        self.peak_at_worst = self.peak
                    self._observe(place, 1.0, at_worst=0.0)
        if (value := self.value) > self.peak:
            self.peak = value
        if self.at_worst is not None and (value := _average(self.at_worst)) > self.peak_at_worst:
            self.peak_at_worst = value

    def _observe(self, place: int, good: float, at_worst: float | None = None) -> None:
        self.detectors[place].observe(good)
        if self.at_worst is not None:
            self.at_worst[place].observe(good if at_worst is None else at_worst)

    def known(self, plan: WatchPlan, place: int) -> int:
        """Number of outcomes with a value of a metric."""
        includes_missing = plan.metrics[place].metric == SCORE and plan.missing == "worst"
        return self.detectors[place].count - (self.missing if includes_missing else 0)

    def mean(self, plan: WatchPlan, place: int) -> float | None:
        """Mean of a metric in its unit, values cut off at the ceiling; None without any."""
        detector, watched = self.detectors[place], plan.metrics[place]
        count = self.known(plan, place)
        if not count:
            return None
        # A missing score was counted as 1.
        share = (detector.total - (detector.count - count)) / count
        return (share if watched.metric == SCORE else 1.0 - share) * watched.ceiling


def _average(detectors: list[FallDetector]) -> float:
    total = 0.0
    for detector in detectors:
        total += detector.value
    return total / len(detectors)


class WatchTest(msgspec.Struct, kw_only=True):
    """A watch, updated as outcomes arrive.

    - **alarm** when the release got worse and the control share, if there is one, has not;
    - **drift** when both got worse;
    - **pass** after the plan's number of outcomes of the release;
    - **inconclusive** instead, when the missing scores, counted as the worst, would have been an
      alarm.

    To go on in another process, use `save_stage` and `load_stage`, or add the same outcomes again.
    """

    plan: WatchPlan
    release: WatchedTraffic
    control: WatchedTraffic
    verdict: StageVerdict | None = None
    """None while the watch runs."""

    @classmethod
    def begin(cls, plan: WatchPlan) -> WatchTest:
        """A watch without outcomes."""
        return cls(
            plan=plan, release=WatchedTraffic.begin(plan), control=WatchedTraffic.begin(plan)
        )

    def add(self, outcome: LiveOutcome) -> StageVerdict | None:
        """Add the next outcome; returns the verdict, or None to continue.

        Outcomes of the arm `baseline` are the control share; all others are the release's.

        Raises:
            InputError: The watch is over.
        """
        if self.verdict is not None:
            raise InputError(
                f"Trace {outcome.trace_id!r} came after the verdict {self.verdict!r}.",
                hint="An outcome that was not part of the decision cannot be added to it.",
            )
        if outcome.arm == "baseline":
            self.control.add(self.plan, outcome)
            return None
        self.release.add(self.plan, outcome)
        if self.release.peak >= self.plan.needed:
            drifted = self.control.peak >= self.plan.control_needed
            self.verdict = "drift" if drifted else "alarm"
        elif self.release.outcomes >= self.plan.outcomes:
            doubtful = self.release.peak_at_worst >= self.plan.needed
            self.verdict = "inconclusive" if doubtful else "pass"
        return self.verdict

    def finish(self) -> StageVerdict:
        """End the watch without further outcomes, for example when the next release replaces this
        one."""
        if self.verdict is None:
            self.verdict = "inconclusive"
        return self.verdict

    @property
    def e_values(self) -> dict[str, float]:
        """The current statistics by name; if nothing changes, they grow by 1 with each outcome."""
        return {"release": self.release.value, "control": self.control.value}

    def decision(self) -> StageDecision:
        """How the watch ended, or where it stands; of the metric with the most evidence."""
        plan, release, control = self.plan, self.release, self.control
        values = [detector.value for detector in release.detectors]
        place = values.index(max(values))
        watched = plan.metrics[place]
        before, after = control.mean(plan, place), release.mean(plan, place)
        return StageDecision(
            stage="watch",
            verdict=self.verdict,
            metric=watched.metric,
            alpha=plan.alpha,
            baseline_count=control.known(plan, place),
            candidate_count=release.known(plan, place),
            baseline=before,
            candidate=after,
            e_value=release.peak,
            needed=plan.needed,
            missing=release.missing,
            sentence=self._sentence(watched, before, after),
        )

    def _sentence(self, watched: WatchedMetric, before: float | None, after: float | None) -> str:
        if after is None:
            return "The release has no outcomes yet."
        unit = f" {UNITS[watched.metric]}".rstrip()
        limit = "at least" if watched.metric == SCORE else "at most"
        moved = (
            f"mean {watched.metric} {after:.3g}{unit} over {self.release.outcomes} outcomes, where"
            f" {limit} {watched.expected:.3g}{unit} was expected"
        )
        if self.verdict in ("alarm", "drift"):
            evidence = f"statistic {self.release.peak:.3g}, {self.plan.needed:.3g} needed"
            text = f"The release got worse: {moved}; {evidence}."
            if self.verdict == "drift":
                text += (
                    f" So did what was released before, over {self.control.outcomes} outcomes:"
                    " the traffic or a provider has changed, and rolling back would not help."
                )
            elif before is not None:
                text += (
                    f" What was released before has a mean of {before:.3g}{unit} in"
                    f" {self.control.outcomes} outcomes, and shows no such change."
                )
            return text
        if self.verdict == "pass":
            return f"The watch ended without an alarm: {moved}.{self._missing()}"
        if self.verdict == "inconclusive" and self.release.peak_at_worst >= self.plan.needed:
            return (
                f"The watch proves nothing: {moved}, but {self.release.missing} of them had no"
                " score, and had all of these been 0, it would be an alarm."
            )
        if self.verdict == "inconclusive":
            return f"The watch ended early, without an alarm: {moved}."
        return f"No alarm so far: {moved}.{self._missing()}"

    def _missing(self) -> str:
        """How many outcomes had no score; empty if all had one."""
        missing, outcomes = self.release.missing, self.release.outcomes
        return f" {missing} of {outcomes} outcomes had no score." if missing else ""
