"""What a lab has seen of one candidate, for those who watch."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from ratchet.learn.work import FAILURES, Evaluation
from ratchet.types import Candidate

LEVEL = 0.95

SAID = 200
"""Characters that are kept of what failing rollouts said."""


class CandidateStats:
    """A candidate and its values by task.

    Args:
        candidate: The candidate.
    """

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.values: dict[str, float] = {}
        """Objective by task id."""
        self.errors: dict[str, str] = {}
        """What rollouts said that failed, by task id."""

    def add(self, evaluations: Iterable[Evaluation]) -> None:
        """More of its evaluations; of several of one task, the last holds."""
        for one in evaluations:
            if one.value is not None:
                self.values[one.task.id] = one.value
            self.errors.pop(one.task.id, None)
            if one.rollout.status in FAILURES:
                self.errors[one.task.id] = one.rollout.error

    def facts(self, tasks: Collection[str]) -> dict[str, Any]:
        """What a proposal of it says: where it came from, its interval over these tasks, what
        failed."""
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
    """What most of them say, in a line; of equally many the first in the alphabet."""
    counts = Counter(" ".join(error.split()) for error in errors)
    text = min(counts, key=lambda said: (-counts[said], said), default="")
    return text if len(text) <= SAID else f"{text[: SAID - 1]}…"


def interval(values: Collection[float]) -> tuple[float | None, float | None]:
    """95 % interval of a mean for people who watch; the proof has a stricter one of its own.

    It is the normal interval of the mean with one success and one failure added to the values
    (Agresti & Caffo 2000), so that a few equal scores do not look like certainty. For scores in
    [0, 1]; others get the plain one. None for fewer than two values.
    """
    if len(values) < 2:
        return None, None
    inside = min(values) >= 0 and max(values) <= 1
    padded = [*values, 0.0, 1.0] if inside else [*values]
    z = statistics.NormalDist().inv_cdf((1 + LEVEL) / 2)
    centre = math.fsum(padded) / len(padded)
    half = z * math.sqrt(statistics.pvariance(padded, centre) / len(padded))
    if inside:
        return max(0.0, centre - half), min(1.0, centre + half)
    return centre - half, centre + half
