"""The canary stage: a share of live units gets the candidate, and the arms are compared."""

from __future__ import annotations

import msgspec

from ratchet.prove.live_metrics import LiveGuardrail
from ratchet.prove.plan_checks import check_counts, check_numbers
from ratchet.types import InputError


class CanaryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a canary, fixed before its first unit.

    Raises:
        InputError: A value is out of range; the message names the field.
    """

    metric: str = "score"
    """Name of the objective, for display; scores are in [0, 1]."""
    alpha: float = 0.05
    """Probability that a candidate passes whose effect is `min_effect` or less, or that breaks a
    guardrail."""
    min_effect: float = -0.03
    """Largest mean effect on the score that is not good enough. Negative: a margin, so that what is
    no better passes, too. 0 or more: only a gain passes."""
    harm_alpha: float = 0.05
    """Probability of stopping for harm when the candidate is no worse and breaks no guardrail. The
    score and each guardrail have equal parts of it."""
    share: float = 0.5
    """Probability that an enrolled unit gets the candidate."""
    guardrails: tuple[LiveGuardrail, ...] = ()
    min_units: int = 100
    """Scored units before which nothing passes."""
    max_units: int = 5000
    """Units, unscored ones included, after which the stage ends."""
    harm_units: int = 500
    """Units within which the tests for harm aim to stop a candidate; they go on afterwards."""
    max_missing: float = 0.1
    """Share of units without a score above which nothing passes."""
    hold_alpha: float = 0.001
    """Probability of holding when units are assigned as planned, and that of holding when scores
    are missing alike in both arms."""
    subgroup_alpha: float = 0.05
    """Accepted share of wrong ones among the groups that are called harmed."""

    def __post_init__(self) -> None:
        check_numbers(self, 1e-12, 0.5, "alpha", "harm_alpha", "hold_alpha", "subgroup_alpha")
        check_numbers(self, -0.9, 0.9, "min_effect")
        check_numbers(self, 0.01, 0.99, "share")
        check_numbers(self, 0.0, 1.0, "max_missing")
        check_counts(self, 1, 10**9, "min_units", "max_units", "harm_units")
        if self.min_units > self.max_units:
            raise InputError(
                f"CanaryPlan: min_units = {self.min_units} exceeds max_units = {self.max_units}."
            )
        names = [guardrail.metric for guardrail in self.guardrails]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"CanaryPlan: guardrail {twice[0]!r} is given twice.")
