"""Statistics of one candidate in a lab, for progress reports."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from ratchet.learn.work import FAILED_STATUSES, Evaluation
from ratchet.types import Candidate

CONFIDENCE_LEVEL = 0.95

MAX_ERROR = 200
"""Maximum length of an error message, in characters."""


class CandidateStats:
    """A candidate and its values by task.

    Args:
        candidate: The candidate.
    """

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.values: dict[str, float] = {}
        """Objective by task id; a missing score counts as 0."""
        self.errors: dict[str, str] = {}
        """Error messages of failed rollouts, by task id."""

    def add(self, evaluations: Iterable[Evaluation]) -> None:
        """Add evaluations; the last one of a task wins."""
        for evaluation in evaluations:
            self.values[evaluation.task.id] = evaluation.worth
            self.errors.pop(evaluation.task.id, None)
            if evaluation.rollout.status in FAILED_STATUSES:
                self.errors[evaluation.task.id] = evaluation.rollout.error

    def facts(self, tasks: Collection[str]) -> dict[str, Any]:
        """Facts for a proposal: origin, interval over these tasks, failures."""
        low, high = interval([v for task, v in self.values.items() if task in tasks])
        return {
            "parents": self.candidate.parents,
            "algorithm": self.candidate.algorithm,
            "reason": self.candidate.reason,
            "failed": len(self.errors),
            "error": _usual(self.errors.values()),
            "low": low,
            "high": high,
        }


def _usual(errors: Iterable[str]) -> str:
    """The most frequent error as one line; ties go to the first in the alphabet."""
    counts = Counter(" ".join(error.split()) for error in errors)
    text = min(counts, key=lambda line: (-counts[line], line), default="")
    return text if len(text) <= MAX_ERROR else f"{text[: MAX_ERROR - 1]}…"


def interval(values: Collection[float]) -> tuple[float | None, float | None]:
    """95 % interval of a mean, for display; the proof uses a stricter one.

    The normal interval of the mean with one success and one failure added to the values (Agresti &
    Caffo 2000), so that a few equal scores do not look certain. This applies to scores in [0, 1];
    others get the plain interval. None for fewer than two values.
    """
    if len(values) < 2:
        return None, None
    inside = min(values) >= 0 and max(values) <= 1
    padded = [*values, 0.0, 1.0] if inside else [*values]
    z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE_LEVEL) / 2)
    centre = math.fsum(padded) / len(padded)
    half = z * math.sqrt(statistics.pvariance(padded, centre) / len(padded))
    if inside:
        return max(0.0, centre - half), min(1.0, centre + half)
    return centre - half, centre + half
