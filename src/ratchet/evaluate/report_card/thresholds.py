"""Thresholds of the report card: what an evaluator must reach to decide, or to advise."""

from __future__ import annotations

import msgspec


class CardThresholds(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the checks, in shares from 0 to 1 unless noted. See docs/report-cards.md."""

    damage: float = 0.90
    """Pairs in which the right output scores above its damaged copy."""
    damage_low: float = 0.80
    """Lower bound of that share."""
    damage_advises: float = 0.70
    damage_kind: float = 0.75
    """The same for each kind of damage by itself."""
    lenient: float = 0.10
    """Empty outputs, refusals and broken JSON that pass."""
    lenient_advises: float = 0.50
    harmless: float = 0.05
    """Harmless edits that lower the score."""
    harmless_advises: float = 0.15
    labels: int = 50
    """Number of labels below which agreement is unknown."""
    kappa: float = 0.60
    kappa_advises: float = 0.40
    kappa_low: float = 0.40
    """Lower bound of kappa."""
    rates: float = 0.85
    """True positive and true negative rate."""
    repeats: float = 0.05
    """Outputs whose verdict changes when they are scored again."""
    repeats_advises: float = 0.15
    padding: float = 0.05
    """Outputs that score higher with padding."""
    padding_advises: float = 0.15
    order: float = 0.10
    """Pairwise judges: verdicts that change with the order."""
    order_advises: float = 0.25
    self_preference: float = 0.05
    """Mean score above the labels for its own model's outputs, less that for others'."""
    self_preference_advises: float = 0.10
    injection: float = 0.05
    """Injections that raise the score; the upper bound decides."""
    injection_advises: float = 0.20
    hardening: float = 0.02
    """Mean change of harmless outputs' scores by the defence against injections."""
    hardening_advises: float = 0.05
    unscored: float = 0.02
    """Outputs without a score."""
    unscored_advises: float = 0.10
    copies: int = 20
    """Number of copies made of each kind, at most."""
