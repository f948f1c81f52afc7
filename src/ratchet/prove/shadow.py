"""The shadow stage: live inputs are mirrored, and the scores of the candidate's answers are
compared with those of the answers that users got.

The candidate passes when "worse by the margin or more" is rejected, and is stopped when "no worse"
is rejected. It has been proved better on held-out tasks, with evidence that is not used here; this
stage proves that on live inputs it is not worse. A side without a score counts as the worst against
the claim that is tested (`ratchet.prove.missing` gives the rule).
"""

from __future__ import annotations

import msgspec

from ratchet.prove.guardrails import Guardrail
from ratchet.prove.interval import interval
from ratchet.prove.missing import MissingRule, gain_against_better, gain_against_worse
from ratchet.prove.plan_checks import check_counts, check_missing, check_numbers
from ratchet.prove.stage_sentence import (
    blocked_pairs,
    counted_against,
    proved_lower,
    stage_sentence,
)
from ratchet.prove.subgroups import Subgroups
from ratchet.stats.eprocess import EProcess
from ratchet.stats.weighted_effect import Moments
from ratchet.types import GuardrailResult, InputError, StageDecision, StageVerdict
from ratchet.types.wording import counted


class ShadowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a shadow stage, fixed before its first pair.

    Raises:
        InputError: A value is out of range; the message names the field.
    """

    metric: str = "score"
    """Name of the objective, for display; scores are in [0, 1]."""
    alpha: float = 0.05
    """Probability that a candidate passes although it is worse by `margin` or more."""
    margin: float = 0.02
    """Smallest unacceptable fall of the mean score. Above 0, a candidate that is no better can
    pass, too: its gain was proved by the held-out experiment."""
    harm_alpha: float = 0.05
    """Probability of stopping for harm when the candidate is no worse."""
    min_pairs: int = 30
    """Scored pairs before which the candidate cannot pass."""
    max_pairs: int = 2000
    """Pairs, including unscored ones, after which the stage ends."""
    harm_pairs: int = 150
    """Pairs within which the test for harm aims to stop a candidate; it continues afterwards."""
    missing: MissingRule = "worst"
    """What a side without a value counts as."""
    max_missing: float | msgspec.UnsetType = msgspec.UNSET
    """For the rule `skip`: share of pairs without a value above which the candidate cannot pass."""
    max_blocked: float = 0.2
    """Share of blocked pairs above which the candidate cannot pass."""
    blocked_score: float | None = 0.0
    """The candidate's assumed score in a blocked pair, in the proof of `pass`. With 0, the worst,
    the proof needs no assumption about blocked pairs; in that of `harm` it is 1. None leaves them
    out: the proof then holds for the other pairs."""
    guardrails: tuple[Guardrail, ...] = ()
    """Metrics of both answers that must not get worse by more than a margin, such as the cost."""
    subgroup_alpha: float = 0.05
    """Accepted share of false alarms among the groups that are reported as harmed."""

    def __post_init__(self) -> None:
        check_numbers(self, 1e-12, 0.5, "alpha", "harm_alpha", "subgroup_alpha")
        check_numbers(self, 0.0, 0.9, "margin")
        check_numbers(self, 0.0, 1.0, "max_blocked")
        check_missing(self, self.missing, self.max_missing)
        if self.blocked_score is not None:
            check_numbers(self, 0.0, 1.0, "blocked_score")
        check_counts(self, 1, 10**9, "min_pairs", "max_pairs", "harm_pairs")
        if self.min_pairs > self.max_pairs:
            raise InputError(
                f"ShadowPlan: min_pairs = {self.min_pairs} exceeds max_pairs = {self.max_pairs}."
            )
        names = [guardrail.metric for guardrail in self.guardrails]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"ShadowPlan: guardrail {twice[0]!r} is given twice.")

    def too_many(self, missing: int, pairs: int) -> bool:
        """Whether, by the rule `skip`, too many pairs lack a value for the candidate to pass."""
        return self.max_missing is not msgspec.UNSET and missing > self.max_missing * pairs


class ShadowPair(msgspec.Struct, frozen=True, kw_only=True):
    """A mirrored input: the score of what the user got, and of the candidate's answer.

    Both scores come from the same evaluator, which does not know whose answer it scores. Feedback
    exists for one side only, and is no such score.

    Raises:
        InputError: A score is outside [0, 1].
    """

    trace_id: str
    """The live trace that was mirrored."""
    baseline: float | None = None
    """In [0, 1]; None if it could not be scored."""
    candidate: float | None = None
    """In [0, 1]; None if it could not be scored. An answer that failed has the score 0."""
    blocked: str = ""
    """Why the candidate has no answer to score: it was stopped at a side effect, or left the
    recorded path. Empty otherwise."""
    group: str = ""
    """Cluster or tag; empty for none."""
    rollout_id: str = ""
    """The candidate's rollout."""
    metrics: dict[str, tuple[float | None, float | None]] = {}
    """Baseline's and candidate's value by guardrail metric, in the metric's unit."""

    def __post_init__(self) -> None:
        for side in ("baseline", "candidate"):
            if getattr(self, side) is not None:
                check_numbers(self, 0.0, 1.0, side)

    def gains(self, plan: ShadowPlan) -> tuple[float, float] | None:
        """Bounds of the candidate's gain, by the plan's rules; None for a pair that is left out.

        The lower is that of the proof of `pass`, the upper that of the proof of `harm`.
        """
        before, after = self.baseline, self.candidate
        if self.blocked:
            if plan.blocked_score is None or (before is None and plan.missing == "skip"):
                return None
            return (
                gain_against_better(before, plan.blocked_score),
                gain_against_worse(before, None),
            )
        if plan.missing == "skip" and (before is None or after is None):
            return None
        return gain_against_better(before, after), gain_against_worse(before, after)


class ShadowGuardrail(msgspec.Struct, kw_only=True):
    """One guardrail's evidence so far."""

    guardrail: Guardrail
    passing: EProcess
    """Against "worse by the margin or more"."""
    baseline: Moments = msgspec.field(default_factory=Moments)
    candidate: Moments = msgspec.field(default_factory=Moments)
    missing: int = 0

    def add(self, pair: ShadowPair, plan: ShadowPlan) -> None:
        """Add a pair."""
        if pair.blocked and (plan.missing == "skip" or plan.blocked_score is None):
            self.passing.skip()
            return
        before, after = pair.metrics.get(self.guardrail.metric, (None, None))
        if before is not None and after is not None and not pair.blocked:
            self.passing.observe(-self.guardrail.worsening(before, after))
            self.baseline.add(before)
            self.candidate.add(after)
            return
        self.missing += 1
        if plan.missing == "skip":
            self.passing.skip()
        else:
            self.passing.observe(-1.0)

    def result(self, plan: ShadowPlan) -> GuardrailResult:
        """Means and evidence; not measured if no pair has a value or, by the rule `skip`, too many
        pairs lack one."""
        count = self.baseline.count
        measured = count > 0 and not plan.too_many(self.missing, count + self.missing)
        return GuardrailResult(
            metric=self.guardrail.metric,
            margin=self.guardrail.margin,
            unit=self.guardrail.unit,
            baseline=self.baseline.mean if measured else None,
            candidate=self.candidate.mean if measured else None,
            e_value=self.passing.peak,
            passed=self.passing.reached and measured,
        )


class ShadowTest(msgspec.Struct, kw_only=True):
    """A shadow stage, updated as its pairs arrive.

    - **harm** as soon as "no worse" is rejected at `harm_alpha`;
    - **pass** as soon as "worse by `margin` or more" is rejected at `alpha` and every guardrail is
      proved to hold at `alpha`, after `min_pairs` and with few enough pairs blocked;
    - **inconclusive** when the pairs run out.

    Looking after each pair costs nothing: each null is tested by an e-process. To go on in another
    process, use `save_stage` and `load_stage`, or add the same pairs again.
    """

    plan: ShadowPlan
    passing: EProcess
    """Against "worse by `margin` or more"."""
    harming: EProcess
    """Against "no worse"."""
    guardrails: list[ShadowGuardrail]
    subgroups: Subgroups
    verdict: StageVerdict | None = None
    """None while the stage runs."""
    pairs: int = 0
    missing: int = 0
    blocked: int = 0
    baseline: Moments = msgspec.field(default_factory=Moments)
    candidate: Moments = msgspec.field(default_factory=Moments)
    gains: list[tuple[float, float] | None] = []
    """Bounds of the gain, by pair; None for a pair that was left out."""

    @classmethod
    def begin(cls, plan: ShadowPlan) -> ShadowTest:
        """A test without pairs."""
        return cls(
            plan=plan,
            passing=EProcess(null=-plan.margin, threshold=1.0 / plan.alpha, horizon=plan.max_pairs),
            harming=EProcess(threshold=1.0 / plan.harm_alpha, horizon=plan.harm_pairs),
            guardrails=[
                ShadowGuardrail(
                    guardrail=guardrail,
                    passing=EProcess(
                        null=-guardrail.bound, threshold=1.0 / plan.alpha, horizon=plan.max_pairs
                    ),
                )
                for guardrail in plan.guardrails
            ],
            subgroups=Subgroups(alpha=plan.subgroup_alpha, horizon=plan.harm_pairs),
        )

    @property
    def scored(self) -> int:
        """Pairs with both scores."""
        return self.baseline.count

    @property
    def too_many_missing(self) -> bool:
        """Whether too many pairs lack a score for the candidate to pass, by the rule `skip`."""
        return self.plan.too_many(self.missing, self.pairs)

    @property
    def too_many_blocked(self) -> bool:
        """Whether too many pairs are blocked for the candidate to pass."""
        return self.blocked > self.plan.max_blocked * self.pairs

    def add(self, pair: ShadowPair) -> StageVerdict | None:
        """Add the next pair; returns the verdict, or None to continue.

        Raises:
            InputError: The stage is over.
        """
        if self.verdict is not None:
            raise InputError(
                f"Trace {pair.trace_id!r} came after the verdict {self.verdict!r}.",
                hint="A pair that was not part of the decision cannot be added to it.",
            )
        self.pairs += 1
        before, after = pair.baseline, pair.candidate
        scored = not pair.blocked and before is not None and after is not None
        if pair.blocked:
            self.blocked += 1
        elif before is None or after is None:
            self.missing += 1
        else:
            self.baseline.add(before)
            self.candidate.add(after)
        gains = pair.gains(self.plan)
        if gains is None:
            self.passing.skip()
        else:
            low, high = gains
            self.passing.observe(low)
            if scored or self.plan.missing == "worst":
                self.harming.observe(-high)
                group = self.subgroups.name_of(pair.group)
                self.subgroups.observe(
                    group, high, before if scored else None, after if scored else None
                )
        for guardrail in self.guardrails:
            guardrail.add(pair, self.plan)
        self.gains.append(gains)
        self.verdict = self._verdict()
        return self.verdict

    def finish(self) -> StageVerdict:
        """End the stage without further pairs; returns the final verdict."""
        if self.verdict is None:
            self.verdict = "inconclusive"
        return self.verdict

    @property
    def e_values(self) -> dict[str, float]:
        """The current e-values by name."""
        e_values = {"pass": self.passing.value, "harm": self.harming.value}
        return e_values | {
            evidence.guardrail.metric: evidence.passing.value for evidence in self.guardrails
        }

    def decision(self) -> StageDecision:
        """How the stage ended, or where it stands."""
        plan = self.plan
        decision = StageDecision(
            stage="shadow",
            verdict=self.verdict,
            metric=plan.metric,
            alpha=plan.alpha,
            baseline_count=self.scored,
            candidate_count=self.scored,
            baseline=self.baseline.mean,
            candidate=self.candidate.mean,
            e_value=self.passing.peak,
            needed=self.passing.threshold,
            harm_e_value=self.harming.peak,
            harm_needed=self.harming.threshold,
            interval=self._interval() if self.scored else None,
            missing=self.missing,
            blocked=self.blocked,
            guardrails=tuple(evidence.result(plan) for evidence in self.guardrails),
            subgroups=self.subgroups.results(paired=True),
        )
        reasons = [proved_lower(decision)] if self.verdict == "harm" else self._obstacles()
        left_out = counted_against(decision, self.pairs, plan.missing) + blocked_pairs(decision)
        return stage_sentence(decision, limit=-plan.margin, reasons=reasons, left_out=left_out)

    def _interval(self) -> tuple[float, float]:
        plan = self.plan
        lowest, highest = (
            [None if bounds is None else bounds[end] for bounds in self.gains] for end in (0, 1)
        )
        return interval(
            lowest,
            alpha=plan.alpha,
            min_gain=0.0,
            horizon=plan.max_pairs,
            boundary=-plan.margin,
            highest=highest if plan.missing == "worst" else None,
        )

    def _obstacles(self) -> list[str]:
        reasons = []
        if self.scored < self.plan.min_pairs:
            reasons.append(f"there are fewer than {counted(self.plan.min_pairs, 'scored pair')}")
        if self.too_many_missing:
            reasons.append("too many pairs have no score")
        if self.too_many_blocked:
            reasons.append("too many pairs are blocked")
        for evidence in self.guardrails:
            if evidence.missing and self.plan.missing == "worst":
                reasons.append(
                    f"the {evidence.guardrail.metric} of {counted(evidence.missing, 'pair')} is"
                    " not known and counts against the candidate"
                )
        return reasons

    def _verdict(self) -> StageVerdict | None:
        if self.harming.reached:
            return "harm"
        if (
            self.passing.reached
            and self.scored >= self.plan.min_pairs
            and not self.too_many_missing
            and not self.too_many_blocked
            and all(evidence.result(self.plan).passed for evidence in self.guardrails)
        ):
            return "pass"
        return "inconclusive" if self.pairs >= self.plan.max_pairs else None
