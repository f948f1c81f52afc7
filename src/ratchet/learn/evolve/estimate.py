"""How good candidates are when each has run other tasks than the others: a shrunken estimate.

A score is taken as the candidate's worth plus the task's ease plus chance. Both are fitted to all
scores at once (a two-way model with random effects: Henderson 1975), so that a candidate that met
the harder tasks is not the worse for it. A candidate's worth is drawn to its parent's as long as
little is known of it: the luckiest of many noisy candidates looks best, and shrinking takes that
luck back out (James & Stein 1961; Efron & Morris 1975).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

SWEEPS = 6
"""Rounds of fitting at each refit; it goes on from where the last one stood."""

PRIOR_NOISE = 0.3
"""Standard deviation of a score about worth plus ease, before any is seen."""

PRIOR_WEIGHT = 8.0
"""Scores that the prior on the noise counts as."""

STEP = 0.15
"""Standard deviation of a child's worth about its parent's."""

EASE = 1.0
"""Standard deviation of tasks' ease about the average."""


class Standing(msgspec.Struct, frozen=True):
    """What is known of a candidate's worth."""

    mean: float
    """Estimated mean objective over all tasks."""
    deviation: float
    """Standard deviation of that estimate."""


class Estimate:
    """Worths of candidates by id, fitted to scores by candidate and task."""

    def __init__(self) -> None:
        self._scores: dict[str, dict[str, float]] = {}
        self._parents: dict[str, str | None] = {}
        self._by_task: dict[str, dict[str, float]] = {}
        # Sums of scores, so that a sweep looks at each pair of candidate and task but once.
        self._sums: dict[str, float] = {}
        self._task_sums: dict[str, float] = {}
        self._worth: dict[str, float] = {}
        self._ease: dict[str, float] = {}
        self._noise = PRIOR_NOISE
        self._scale = 1.0
        self._stale = False

    def add(self, candidate_id: str, parent_id: str | None, scores: Mapping[str, float]) -> None:
        """Take scores of a candidate by task; a later score of the same task replaces it."""
        if candidate_id not in self._scores:
            self._scores[candidate_id] = {}
            self._parents[candidate_id] = parent_id
        self._scores[candidate_id].update(scores)
        self._sums[candidate_id] = math.fsum(self._scores[candidate_id].values())
        for task, value in scores.items():
            self._by_task.setdefault(task, {})[candidate_id] = value
            self._task_sums[task] = math.fsum(self._by_task[task].values())
        self._stale = True

    def standing(self, candidate_id: str) -> Standing:
        """What is known of a candidate that has scores."""
        self._refit()
        known = len(self._scores[candidate_id])
        step = STEP * self._scale
        precision = known / max(self._noise**2, 1e-12) + 1.0 / step**2
        return Standing(self._worth[candidate_id], math.sqrt(1.0 / precision))

    @property
    def noise(self) -> float:
        """Standard deviation of a score about worth plus ease."""
        self._refit()
        return self._noise

    def _refit(self) -> None:
        if not self._stale:
            return
        self._stale = False
        values = [value for scores in self._scores.values() for value in scores.values()]
        if not values:
            return
        low, high = min(values), max(values)
        self._scale = max(1.0, high - low) if high > 1.0 or low < 0.0 else 1.0
        centre = math.fsum(values) / len(values)
        for candidate_id in self._scores:
            if candidate_id not in self._worth:
                parent = self._parents[candidate_id]
                self._worth[candidate_id] = self._worth.get(parent or "", centre)
        for _ in range(SWEEPS):
            self._fit_ease()
            self._fit_worth(centre)
        self._fit_noise(len(values))

    def _fit_ease(self) -> None:
        noise = max(self._noise, 1e-6) ** 2
        prior = noise / (EASE * self._scale) ** 2
        for task, scores in self._by_task.items():
            left = self._task_sums[task] - sum(map(self._worth.__getitem__, scores))
            self._ease[task] = left / (len(scores) + prior)
        if self._ease:
            # Worth is the mean over tasks: their ease has to have a mean of zero.
            mean = math.fsum(self._ease.values()) / len(self._ease)
            for task in self._ease:
                self._ease[task] -= mean

    def _fit_worth(self, centre: float) -> None:
        noise = max(self._noise, 1e-6) ** 2
        near = noise / (STEP * self._scale) ** 2
        far = noise / self._scale**2  # nothing is known of where the first candidate stands
        for one, scores in self._scores.items():
            parent = self._parents[one]
            from_parent = parent is not None and parent in self._worth
            prior = near if from_parent else far
            towards = self._worth[parent] if from_parent and parent is not None else centre
            left = self._sums[one] - sum(map(self._ease.__getitem__, scores))
            self._worth[one] = (left + prior * towards) / (len(scores) + prior)

    def _fit_noise(self, count: int) -> None:
        squares = 0.0
        for one, scores in self._scores.items():
            worth = self._worth[one]
            for task, value in scores.items():
                left = value - worth - self._ease[task]
                squares += left * left
        prior = PRIOR_WEIGHT * (PRIOR_NOISE * self._scale) ** 2
        self._noise = math.sqrt((squares + prior) / (count + PRIOR_WEIGHT))
