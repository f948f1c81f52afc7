"""The canary stage: a share of live units gets the candidate, and the two arms are compared.

The effect on the score is estimated without bias from the random assignment alone (see
`ratchet.stats.weighted_effect`), and tested by betting, exactly. The interval that is shown beside
it is asymptotic, and is hidden until there are enough good and bad outcomes in both arms.

A unit without a score counts as the worst against the claim that is tested (`ratchet.prove.missing`
gives the rule). Where scores are people's feedback, most units have none by design, and are no
missing ones: see `ratchet.prove.feedback`.
"""

from __future__ import annotations

import msgspec

from ratchet.prove.feedback import CoverageEvidence, FeedbackRule, told_gain, units_needed
from ratchet.prove.live_metrics import (
    NEGATIVE,
    SCORE,
    UNITS,
    LiveGuardrail,
    feedback_of,
    live_value,
    share_of,
)
from ratchet.prove.missing import MissingRule
from ratchet.prove.plan_checks import check_counts, check_missing, check_numbers
from ratchet.prove.stage_sentence import (
    counted_against,
    feedback_outlook,
    proved_lower,
    silent_units,
    stage_sentence,
)
from ratchet.prove.subgroups import Subgroups
from ratchet.stats.asymptotic import asymptotic_interval
from ratchet.stats.eprocess import EProcess
from ratchet.stats.sample_ratio import SampleRatio
from ratchet.stats.weighted_effect import Spread, WeightedEffect
from ratchet.types import GuardrailResult, InputError, LiveOutcome, StageDecision, StageVerdict

MIN_OUTCOMES = 10.0
"""Sum of scores, and of their distances from 1, that each arm needs before the interval is shown:
for scores of 0 and 1, that many successes and failures."""

TUNED_FOR = 1000
"""Units at which the interval is narrowest, compared with other intervals of its kind."""

SHOWN_DIGITS = 6
"""Decimals of the interval: its logarithms differ in the last bits from machine to machine."""


class CanaryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a canary, fixed before its first unit.

    Raises:
        InputError: A value is out of range; the message names the field.
    """

    metric: str = "score"
    """Name of the objective, for display; scores are in [0, 1]."""
    alpha: float = 0.05
    """Probability that a candidate passes although its effect is `min_effect` or less, or it breaks
    a guardrail."""
    min_effect: float = -0.03
    """Largest mean effect on the score that is not good enough. Negative: a margin, so that a
    candidate that is no better can pass. 0 or more: only a gain passes."""
    harm_alpha: float = 0.05
    """Probability of stopping for harm when the candidate is no worse and breaks no guardrail. It
    is split equally between the score and the guardrails."""
    share: float = 0.5
    """Probability that an enrolled unit gets the candidate."""
    guardrails: tuple[LiveGuardrail, ...] = ()
    feedback: FeedbackRule | None = None
    """What else must be proved if the score is people's feedback, so that a unit without feedback
    is silent, not missing; None if every answer is scored."""
    min_units: int = 100
    """Scored units before which the candidate cannot pass."""
    max_units: int = 5000
    """Units, including unscored ones, after which the stage ends."""
    harm_units: int = 500
    """Units within which the tests for harm aim to stop a candidate; they continue afterwards."""
    missing: MissingRule = "worst"
    """What a unit without a value counts as."""
    max_missing: float | msgspec.UnsetType = msgspec.UNSET
    """For the rule `skip`: share of units without a value above which the candidate cannot pass."""
    hold_alpha: float = 0.001
    """Probability of holding although units are assigned as planned, and of holding although scores
    are missing equally in both arms, or equally many units give feedback within the margin."""
    subgroup_alpha: float = 0.05
    """Accepted share of false alarms among the groups that are reported as harmed."""

    def __post_init__(self) -> None:
        check_numbers(self, 1e-12, 0.5, "alpha", "harm_alpha", "hold_alpha", "subgroup_alpha")
        check_numbers(self, -0.9, 0.9, "min_effect")
        check_numbers(self, 0.01, 0.99, "share")
        check_missing(self, self.missing, self.max_missing)
        if self.feedback is None and any(
            guardrail.metric == NEGATIVE for guardrail in self.guardrails
        ):
            raise InputError(
                f"CanaryPlan: guardrail {NEGATIVE!r} is only for a canary on feedback.",
                hint="Give feedback=FeedbackRule(), which includes it.",
            )
        check_counts(self, 1, 10**9, "min_units", "max_units", "harm_units")
        if self.min_units > self.max_units:
            raise InputError(
                f"CanaryPlan: min_units = {self.min_units} exceeds max_units = {self.max_units}."
            )
        names = [guardrail.metric for guardrail in self.guarded]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"CanaryPlan: guardrail {twice[0]!r} is given twice.")

    @property
    def guarded(self) -> tuple[LiveGuardrail, ...]:
        """All guardrails, including that of negative feedback."""
        return self.guardrails + (() if self.feedback is None else (self.feedback.guardrail,))

    @property
    def units_needed(self) -> int | None:
        """For a canary on feedback, the number of units that a proof takes; None if it cannot be
        estimated."""
        if self.feedback is None:
            return None
        return units_needed(
            self.feedback,
            alpha=self.alpha,
            share=self.share,
            min_effect=self.min_effect,
            min_units=self.min_units,
        )

    @property
    def harm_needed(self) -> float:
        """E-value at which the score, or a guardrail's metric, is proved worse."""
        return (1 + len(self.guarded)) / self.harm_alpha

    def too_many(self, missing: int, units: int) -> bool:
        """Whether, by the rule `skip`, too many units lack a value for the candidate to pass."""
        return self.max_missing is not msgspec.UNSET and missing > self.max_missing * units

    @property
    def hold_needed(self) -> float:
        """E-value at which the arms are proved not to be comparable."""
        return 1.0 / self.hold_alpha


class GuardrailEvidence(msgspec.Struct, kw_only=True):
    """One guardrail's evidence so far."""

    guardrail: LiveGuardrail
    effect: WeightedEffect
    passing: EProcess
    """Evidence against "worse by the margin or more"."""
    harming: EProcess
    """Evidence against "not worse than the margin"."""
    missing: int = 0

    @classmethod
    def begin(cls, guardrail: LiveGuardrail, plan: CanaryPlan) -> GuardrailEvidence:
        """The evidence before the first unit."""
        effect = WeightedEffect(share=plan.share)
        bound = guardrail.margin / guardrail.ceiling / effect.bound
        return cls(
            guardrail=guardrail,
            effect=effect,
            passing=EProcess(null=-bound, threshold=1.0 / plan.alpha, horizon=plan.max_units),
            harming=EProcess(null=bound, threshold=plan.harm_needed, horizon=plan.harm_units),
        )

    def add(self, outcome: LiveOutcome, group: str, skips: bool) -> None:
        """Add a unit; `skips` leaves it out if its value is unknown."""
        value = live_value(outcome, self.guardrail.metric)
        if value is None:
            self.missing += 1
            if skips:
                self.passing.skip()
                self.harming.skip()
                return
        share = None if value is None else share_of(value, self.guardrail.ceiling)
        lowest, highest = self.effect.observe(share, outcome.arm == "candidate", group)
        self.passing.observe(-highest)
        self.harming.observe(lowest)

    def measured(self, plan: CanaryPlan) -> bool:
        """Whether the metric is known in both arms; by the rule `skip`, in enough units."""
        if plan.missing == "worst":
            return min(self.effect.treated.count, self.effect.untreated.count) > 0
        known_units = self.effect.known
        return known_units > 0 and not plan.too_many(self.missing, known_units + self.missing)

    def result(self, plan: CanaryPlan) -> GuardrailResult:
        """Means of values capped at the ceiling, and the evidence."""
        measured, ceiling = self.measured(plan), self.guardrail.ceiling
        before, after = self.effect.untreated.mean, self.effect.treated.mean
        return GuardrailResult(
            metric=self.guardrail.metric,
            margin=self.guardrail.margin,
            unit=UNITS[self.guardrail.metric],
            baseline=before * ceiling if measured and before is not None else None,
            candidate=after * ceiling if measured and after is not None else None,
            e_value=self.passing.peak,
            passed=self.passing.reached and measured,
        )


class CanaryTest(msgspec.Struct, kw_only=True):
    """A canary, updated as the outcomes of its units arrive.

    - **harm** as soon as the score is proved lower, or a guardrail's metric worse than its margin;
    - **hold** as soon as the arms are proved not to be of the planned sizes, or scores to be
      missing in one arm more than in the other, or the shares of units with feedback to differ by
      more than their margin: then the arms cannot be compared;
    - **pass** as soon as "an effect of `min_effect` or less" is rejected at `alpha`, every
      guardrail is proved to hold at `alpha`, the shares of units with feedback are proved equal
      where scores are feedback, and there are enough units with a score;
    - **inconclusive** when the units run out.

    Looking after each unit costs nothing: each null is tested by an e-process. A unit counts once,
    by its first outcome. To go on in another process, use `save_stage` and `load_stage`, or add the
    same outcomes again.
    """

    plan: CanaryPlan
    effect: WeightedEffect
    passing: EProcess
    """Against "the effect is `min_effect` or less"."""
    harming: EProcess
    """Against "no worse"."""
    guardrails: list[GuardrailEvidence]
    ratio: SampleRatio
    """Of all units."""
    missing_ratio: SampleRatio
    """Of units without a score."""
    coverage: CoverageEvidence | None
    """Units with feedback; None if scores are not feedback."""
    subgroups: Subgroups
    verdict: StageVerdict | None = None
    """None while the stage runs."""
    units: set[str] = set()

    @classmethod
    def begin(cls, plan: CanaryPlan) -> CanaryTest:
        """A test without units."""
        effect = WeightedEffect(share=plan.share)
        return cls(
            plan=plan,
            effect=effect,
            passing=EProcess(
                null=plan.min_effect / effect.bound,
                threshold=1.0 / plan.alpha,
                horizon=plan.max_units,
            ),
            harming=EProcess(threshold=plan.harm_needed, horizon=plan.harm_units),
            guardrails=[GuardrailEvidence.begin(guardrail, plan) for guardrail in plan.guarded],
            ratio=SampleRatio(share=plan.share),
            missing_ratio=SampleRatio(share=plan.share),
            coverage=None
            if plan.feedback is None
            else CoverageEvidence.begin(
                plan.feedback,
                share=plan.share,
                alpha=plan.alpha,
                units=plan.max_units,
                hold_alpha=plan.hold_alpha,
            ),
            subgroups=Subgroups(alpha=plan.subgroup_alpha, horizon=plan.harm_units),
        )

    @property
    def scored(self) -> int:
        """Units with a score."""
        return self.effect.known

    @property
    def too_many_missing(self) -> bool:
        """Whether too many units lack a score for the candidate to pass, by the rule `skip`."""
        return self.plan.too_many(self.missing_ratio.units, self.ratio.units)

    def add(self, outcome: LiveOutcome) -> StageVerdict | None:
        """Add the next outcome; returns the verdict, or None to continue.

        A later outcome of a unit changes nothing.

        Raises:
            InputError: The stage is over, the unit is in neither arm, or a score is not in [0, 1].
        """
        if self.verdict is not None:
            raise InputError(
                f"Trace {outcome.trace_id!r} came after the verdict {self.verdict!r}.",
                hint="An outcome that was not part of the decision cannot be added to it.",
            )
        if outcome.arm is None:
            raise InputError(
                f"Trace {outcome.trace_id!r} is in neither arm of the canary.",
                hint="Add outcomes of enrolled units only.",
            )
        if outcome.unit in self.units:
            return None
        score = feedback_of(outcome) if self.coverage is not None else live_value(outcome, SCORE)
        for value in (score, outcome.predicted):
            if value is not None and not 0.0 <= value <= 1.0:
                raise InputError(f"Trace {outcome.trace_id!r}: score {value!r} is outside [0, 1].")
        self.units.add(outcome.unit)
        treated = outcome.arm == "candidate"
        group = self.subgroups.name_of(outcome.group)
        self.ratio.observe(treated)
        skips = self.plan.missing == "skip"
        if score is None:
            self.missing_ratio.observe(treated)
        if score is None and self.coverage is not None:
            # At the means of the nulls nothing is won or lost, and the bets learn that few units
            # bring evidence.
            self.passing.observe(self.passing.null)
            self.harming.observe(self.harming.null)
        elif score is None and skips:
            self.passing.skip()
            self.harming.skip()
        else:
            low, high = self.effect.observe(score, treated, group, outcome.predicted)
            self.passing.observe(low)
            self.harming.observe(-high)
            before, after = (None, score) if treated else (score, None)
            self.subgroups.observe(group, high, before, after)
        for guardrail in self.guardrails:
            guardrail.add(outcome, group, skips)
        if self.coverage is not None:
            self.coverage.add(score is not None, treated, group, outcome.predicted)
        self.verdict = self._verdict()
        return self.verdict

    def finish(self) -> StageVerdict:
        """End the stage without further units; returns the final verdict."""
        if self.verdict is None:
            self.verdict = "inconclusive"
        return self.verdict

    @property
    def e_values(self) -> dict[str, float]:
        """The current e-values by name."""
        e_values = {"pass": self.passing.value, "harm": self.harming.value}
        for evidence in self.guardrails:
            e_values[evidence.guardrail.metric] = evidence.passing.value
            e_values[f"{evidence.guardrail.metric} harm"] = evidence.harming.value
        e_values["sample ratio"] = self.ratio.value
        if self.coverage is None:
            e_values["missing"] = self.missing_ratio.value
        else:
            e_values["coverage not lower"] = self.coverage.not_lower.value
            e_values["coverage not higher"] = self.coverage.not_higher.value
            e_values["coverage lower"] = self.coverage.lower.value
            e_values["coverage higher"] = self.coverage.higher.value
        return e_values

    @property
    def interval(self) -> tuple[float, float] | None:
        """Asymptotic confidence sequence of the mean effect, at level 1 - alpha.

        Of units without a score it covers whatever theirs may be, unless they are left out. None
        until each arm has `MIN_OUTCOMES` good and bad outcomes.
        """
        for arm in (self.effect.treated, self.effect.untreated):
            if min(arm.total, arm.count - arm.total) < MIN_OUTCOMES:
                return None
        bound = self.effect.bound
        low, _ = self._ends(self.effect.lowest)
        _, high = self._ends(self.effect.highest)
        return round(max(low * bound, -1.0), SHOWN_DIGITS), round(
            min(high * bound, 1.0), SHOWN_DIGITS
        )

    def _ends(self, effects: Spread) -> tuple[float, float]:
        mean, variance = effects.moments()
        return asymptotic_interval(
            effects.count, mean, variance, alpha=self.plan.alpha, tuned_for=TUNED_FOR
        )

    def decision(self) -> StageDecision:
        """How the stage ended, or where it stands."""
        plan = self.plan
        decision = StageDecision(
            stage="canary",
            verdict=self.verdict,
            metric=plan.metric,
            alpha=plan.alpha,
            baseline_count=self.effect.untreated.count,
            candidate_count=self.effect.treated.count,
            baseline=self.effect.untreated.mean,
            candidate=self.effect.treated.mean,
            e_value=self.passing.peak,
            needed=self.passing.threshold,
            harm_e_value=self.harming.peak,
            harm_needed=self.harming.threshold,
            interval=self.interval,
            missing=self.missing_ratio.units,
            guardrails=self._guarded(),
            sample_ratio_e_value=self.ratio.peak,
            missing_e_value=None if self.coverage is not None else self.missing_ratio.peak,
            subgroups=self.subgroups.results(paired=False),
        )
        reasons = self._harms(decision) if self.verdict == "harm" else self._obstacles()
        left_out = self._left_out(decision)
        return stage_sentence(decision, limit=plan.min_effect, reasons=reasons, left_out=left_out)

    def _guarded(self) -> tuple[GuardrailResult, ...]:
        results = tuple(evidence.result(self.plan) for evidence in self.guardrails)
        return results if self.coverage is None else (*results, self.coverage.result())

    def _left_out(self, decision: StageDecision) -> list[str]:
        plan = self.plan
        if plan.feedback is None:
            return counted_against(decision, self.ratio.units, plan.missing)
        sentences = silent_units(decision, self.ratio.units)
        if self.verdict is None:
            gain = told_gain(plan.min_effect)
            outlook = feedback_outlook(plan.feedback, plan.units_needed, gain, plan.max_units)
            sentences.append(outlook)
        return sentences

    def _harms(self, decision: StageDecision) -> list[str]:
        reasons = [proved_lower(decision)] if self.harming.reached else []
        for evidence in self.guardrails:
            if evidence.harming.reached:
                name, unit = evidence.guardrail.metric, UNITS[evidence.guardrail.metric]
                margin = f"{evidence.guardrail.margin:g} {unit}".strip()
                reasons.append(f"the mean of {name} is proved higher by more than {margin}")
        return reasons

    def _obstacles(self) -> list[str]:
        plan, reasons = self.plan, []
        if self.ratio.peak >= plan.hold_needed:
            reasons.append(
                f"{self.ratio.first} of {self.ratio.units} units got the candidate, where"
                f" {100.0 * plan.share:.3g} % were planned"
            )
        if self.coverage is not None and self.coverage.unequal:
            effect, margin = self.coverage.effect, self.coverage.margin
            before, after = (
                100.0 * (arm.mean or 0.0) for arm in (effect.untreated, effect.treated)
            )
            reasons.append(
                f"{before:.3g} % of the baseline's units gave feedback and {after:.3g} % of the"
                f" candidate's, proved to differ by more than {100.0 * margin:g} points: people do"
                " not fall silent alike in both arms"
            )
        if self.coverage is None and self.missing_ratio.peak >= plan.hold_needed:
            reasons.append(
                f"{self.missing_ratio.first} of {self.missing_ratio.units} units without a score"
                " are the candidate's, so scores are missing because of it"
            )
        if self.scored < plan.min_units:
            scored = "a score" if self.coverage is None else "feedback"
            reasons.append(f"there are fewer than {plan.min_units} units with {scored}")
        if self.too_many_missing:
            reasons.append("too many units have no score")
        for evidence in self.guardrails:
            if evidence.missing and plan.missing == "worst":
                reasons.append(
                    f"the {evidence.guardrail.metric} of {evidence.missing} units is not known and"
                    " counts against the candidate"
                )
        return reasons

    def _verdict(self) -> StageVerdict | None:
        plan = self.plan
        if self.harming.reached or any(evidence.harming.reached for evidence in self.guardrails):
            return "harm"
        if self.ratio.peak >= plan.hold_needed or self._silent_otherwise():
            return "hold"
        if (
            self.passing.reached
            and (self.coverage is None or self.coverage.equal)
            and self.scored >= plan.min_units
            and not self.too_many_missing
            and all(
                evidence.passing.reached and evidence.measured(plan) for evidence in self.guardrails
            )
        ):
            return "pass"
        return "inconclusive" if self.ratio.units >= plan.max_units else None

    def _silent_otherwise(self) -> bool:
        """Whether scores are proved to be missing more in one arm than in the other."""
        if self.coverage is not None:
            return self.coverage.unequal
        return self.missing_ratio.peak >= self.plan.hold_needed
