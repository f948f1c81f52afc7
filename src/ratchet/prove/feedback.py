"""A canary on people's feedback: what must be proved when most units give none.

People who say nothing are no missing scores: whether they speak is theirs to choose. If the version
that they got does not change who speaks (*people fall silent alike in both arms*), those who speak
are of the candidate's arm with the planned probability, whatever makes them speak, and the effect
among them is estimated without bias as it is among all units.

No data of the canary can prove that assumption: a version whose discontented users leave without a
word looks like a better one. What can be proved of it has to be proved. The share of units with
feedback must be equal in both arms, within a margin, which takes two one-sided tests (Schuirmann,
"A comparison of the two one-sided tests procedure and the power approach", Journal of
Pharmacokinetics and Biopharmaceutics 1987). And the share of *all* units with negative feedback
must not be higher, which needs no assumption. Each test has the whole alpha of the canary, since
all have to succeed (an intersection-union test, as of guardrails).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from statistics import NormalDist

import msgspec

from ratchet.prove.live_metrics import NEGATIVE, LiveGuardrail, feedback_of
from ratchet.prove.plan_checks import check_numbers
from ratchet.stats.eprocess import EProcess
from ratchet.stats.weighted_effect import WeightedEffect
from ratchet.types import GuardrailResult, LiveOutcome
from ratchet.types.cycle import DAY_S

COVERAGE = "share with feedback"

GAIN = 0.1
"""Rise of the mean feedback, above what must be excluded, for which the units of a proof are
estimated."""

EACH_POWER = 0.9
"""Probability that each of the two tests of the coverage succeeds, so that both do with 0.8."""

SEQUENTIAL = 1.2
"""Units of a proof that is checked after each unit, as a multiple of those of a proof that is
checked once. With it, 80 % or more pass at coverages from 0.1 to 0.8 (`feedback_canary_told` of
`benchmarks/live_decisions.py`)."""


class FeedbackRule(msgspec.Struct, frozen=True, kw_only=True):
    """What a canary must prove if its scores are people's feedback.

    Raises:
        InputError: A value is out of range.
    """

    negative_margin: float = 0.03
    """Smallest unacceptable increase of the share of all units with negative feedback."""
    coverage_margin: float = 0.05
    """Smallest unacceptable difference of the shares of units with feedback."""
    coverage: float | None = None
    """Share of units with feedback before the canary, used to estimate how many units the canary
    needs; None if unknown."""
    units_per_day: float | None = None
    """Units before the canary; None if unknown."""

    def __post_init__(self) -> None:
        check_numbers(self, 1e-6, 0.9, "negative_margin", "coverage_margin")
        if self.coverage is not None:
            check_numbers(self, 0.0, 1.0, "coverage")
        if self.units_per_day is not None:
            check_numbers(self, 0.0, 1e12, "units_per_day")

    @classmethod
    def after(cls, outcomes: Sequence[LiveOutcome]) -> FeedbackRule:
        """The rule, with coverage and traffic estimated from these outcomes, oldest first."""
        units = {outcome.unit: outcome for outcome in reversed(outcomes)}
        if not units:
            return cls()
        answered = sum(feedback_of(outcome) is not None for outcome in units.values())
        days = (outcomes[-1].at - outcomes[0].at) / DAY_S
        return cls(
            coverage=answered / len(units), units_per_day=len(units) / days if days > 0.0 else None
        )

    @property
    def guardrail(self) -> LiveGuardrail:
        """The guardrail on the share of all units with negative feedback."""
        return LiveGuardrail(metric=NEGATIVE, margin=self.negative_margin)


class CoverageEvidence(msgspec.Struct, kw_only=True):
    """Evidence on the difference of the shares of units with feedback, in both directions."""

    margin: float
    effect: WeightedEffect
    not_lower: EProcess
    """Against "the candidate's is lower by the margin or more"."""
    not_higher: EProcess
    """Against "the candidate's is higher by the margin or more"."""
    lower: EProcess
    """Against "the candidate's is lower by at most the margin"."""
    higher: EProcess
    """Against "the candidate's is higher by at most the margin"."""

    @classmethod
    def begin(
        cls, rule: FeedbackRule, *, share: float, alpha: float, units: int, hold_alpha: float
    ) -> CoverageEvidence:
        """The evidence before the first unit.

        Args:
            rule: The margin.
            share: Probability that a unit gets the candidate.
            alpha: Level of each proof that the difference is within the margin.
            units: Units within which the proofs aim to succeed.
            hold_alpha: Probability of a proof that it is beyond the margin, when it is not.
        """
        effect = WeightedEffect(share=share)
        bound = rule.coverage_margin / effect.bound
        equal, unequal = 1.0 / alpha, 2.0 / hold_alpha
        return cls(
            margin=rule.coverage_margin,
            effect=effect,
            not_lower=EProcess(null=-bound, threshold=equal, horizon=units),
            not_higher=EProcess(null=-bound, threshold=equal, horizon=units),
            lower=EProcess(null=bound, threshold=unequal, horizon=units),
            higher=EProcess(null=bound, threshold=unequal, horizon=units),
        )

    @property
    def equal(self) -> bool:
        """Whether the shares are proved equal within the margin."""
        return self.not_lower.reached and self.not_higher.reached

    @property
    def unequal(self) -> bool:
        """Whether they are proved to differ by more than the margin."""
        return self.lower.reached or self.higher.reached

    def add(self, answered: bool, treated: bool, group: str, covariate: float | None) -> None:
        """Add a unit."""
        more, _ = self.effect.observe(float(answered), treated, group, covariate)
        self.not_lower.observe(more)
        self.not_higher.observe(-more)
        self.lower.observe(-more)
        self.higher.observe(more)

    def result(self) -> GuardrailResult:
        """The shares of both arms, and the evidence that they are equal within the margin."""
        return GuardrailResult(
            metric=COVERAGE,
            margin=self.margin,
            unit="",
            baseline=self.effect.untreated.mean,
            candidate=self.effect.treated.mean,
            e_value=min(self.not_lower.peak, self.not_higher.peak),
            passed=self.equal,
        )


def told_gain(min_effect: float) -> float:
    """The rise of the mean feedback for which the units of a proof are estimated."""
    return GAIN + max(min_effect, 0.0)


def units_needed(
    rule: FeedbackRule, *, alpha: float, share: float, min_effect: float, min_units: int
) -> int | None:
    """Units within which a candidate passes in 80 % of canaries, at the coverage seen before.

    Its feedback is better by `told_gain`, its coverage is the same. A test whose observations have
    the variance v / (share (1 - share)) needs (z(alpha) + z(power))² times that variance, over the
    square of the distance from what it has to exclude, if it is looked at once. The largest of the
    tests' numbers counts; each v is the largest possible one at the coverage.

    Returns:
        None when the coverage is not known, or 0: without feedback nothing can be proved.
    """
    coverage = rule.coverage
    if not coverage:
        return None
    gain = told_gain(min_effect)
    quantile = NormalDist().inv_cdf
    once = (quantile(1.0 - alpha) + quantile(EACH_POWER)) ** 2 / (share * (1.0 - share))
    negative = coverage / 2.0
    noise_ratio = max(
        0.25 / (coverage * (gain - min_effect) ** 2),
        negative * (1.0 - negative) / (rule.negative_margin + coverage * gain) ** 2,
        coverage * (1.0 - coverage) / rule.coverage_margin**2,
    )
    return ceil(max(SEQUENTIAL * once * noise_ratio, min_units / coverage))
