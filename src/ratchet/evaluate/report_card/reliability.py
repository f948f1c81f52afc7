"""Calibration curve: how often outputs of about the same score are right."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from ratchet.stats.proportion import wilson


class ReliabilityBin(msgspec.Struct, frozen=True, kw_only=True):
    """Outputs whose scores lie in one interval."""

    score: float
    """Their mean score."""
    right: float
    """Share of them that people call right."""
    low: float
    """Lower end of its 95 % interval."""
    high: float
    n: int


def reliability(
    scores: Sequence[float], labels: Sequence[bool], *, bins: int = 5
) -> list[ReliabilityBin]:
    """The calibration curve over intervals of equal width, empty ones left out.

    Args:
        scores: Scores in [0, 1].
        labels: Whether each output is right.
        bins: Number of intervals.
    """
    found: list[ReliabilityBin] = []
    for number in range(bins):
        inside = [
            (score, label)
            for score, label in zip(scores, labels, strict=True)
            if min(int(score * bins), bins - 1) == number
        ]
        if inside:
            right, n = sum(label for _, label in inside), len(inside)
            low, high = wilson(right, n)
            mean = math.fsum(score for score, _ in inside) / n
            found.append(ReliabilityBin(score=mean, right=right / n, low=low, high=high, n=n))
    return found


def calibration_error(curve: Sequence[ReliabilityBin]) -> float:
    """Mean distance between score and share, weighted by outputs (expected calibration error)."""
    n = sum(each.n for each in curve)
    return math.fsum(each.n * abs(each.score - each.right) for each in curve) / n if n else 0.0
