"""Shrunken estimates of candidates' worth when each has run a different set of tasks.

A score is modelled as the candidate's worth plus the task's ease plus noise. Both are fitted to all
scores jointly (a two-way model with random effects: Henderson 1975), so that a candidate that ran
harder tasks is not penalised. A candidate's worth is shrunk to its parent's while it has few
scores: the highest of many noisy means is biased upwards, and shrinkage corrects that (James &
Stein 1961; Efron & Morris 1975).

Where scores have a maximum, a score at the maximum is censored: it means "at least as much" (Tobin
1958). Otherwise a candidate that also solves the easy tasks would seem worse than one that ran only
hard ones, and the newest candidate, which has solved its first few tasks, better than possible.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

SWEEPS = 3
"""Fitting rounds per refit; each refit starts from the last solution."""

NEWTON_STEPS_PER_SIDE = 2
"""Newton steps per side of a round."""

PRIOR_NOISE = 0.3
"""Prior standard deviation of the noise of a score."""

PRIOR_WEIGHT = 8.0
"""Weight of that prior, as a number of scores."""

PRIOR_STEP = 0.15
"""Prior standard deviation of a child's worth around its parent's."""

MAX_STEPS_FROM_PARENT = 3.0
"""How many steps (`PRIOR_STEP`) apart a child says nothing about its parent: the change broke
something, or made it an entirely different candidate."""

SCORE_TOLERANCE = 1e-9
"""Tolerance within which a score counts as being at the end of the scale."""

EASE = 1.0
"""Prior standard deviation of the tasks' ease."""


class Standing(msgspec.Struct, frozen=True):
    """Estimate of a candidate's worth."""

    mean: float
    """Estimated mean objective over all tasks."""
    deviation: float
    """Standard deviation of the estimate."""


class Estimate:
    """Worth of candidates by id, fitted to scores by candidate and task."""

    def __init__(self) -> None:
        self.highest = 0.0
        """The highest score so far; 0 without scores."""
        self._bottom = -math.inf
        self._scores: dict[str, dict[str, float]] = {}
        self._parents: dict[str, str | None] = {}
        self._children: dict[str, list[str]] = {}
        self._by_task: dict[str, dict[str, float]] = {}
        self._worth: dict[str, float] = {}
        self._ease: dict[str, float] = {}
        self._noise = PRIOR_NOISE
        self._scale = 1.0
        self._shared: list[str] = []
        """Tasks that several candidates have run. One candidate's score says almost nothing about
        how easy its task is."""
        self._standings: dict[str, Standing] = {}
        self._stale = False

    @property
    def top(self) -> float:
        """The highest possible score, as far as observed: 1, or infinite if one was higher."""
        return 1.0 if self.highest <= 1.0 else math.inf

    def add(self, candidate_id: str, parent_id: str | None, scores: Mapping[str, float]) -> None:
        """Add scores of a candidate by task; a later score of a task replaces the earlier."""
        if candidate_id not in self._scores:
            self._scores[candidate_id] = {}
            self._parents[candidate_id] = parent_id
            if parent_id is not None:
                self._children.setdefault(parent_id, []).append(candidate_id)
        self._scores[candidate_id].update(scores)
        self.highest = max([self.highest, *scores.values()])
        for task, value in scores.items():
            self._by_task.setdefault(task, {})[candidate_id] = value
        self._stale = True

    def standing(self, candidate_id: str) -> Standing:
        """Estimate for a candidate that has scores."""
        self._refit()
        standing = self._standings.get(candidate_id)
        if standing is None:
            standing = self._standings[candidate_id] = self._standing(candidate_id)
        return standing

    def luck(self, candidate_id: str) -> float:
        """How far a candidate's mean score is above what is expected on the same tasks."""
        self._refit()
        worth, scores = self._worth[candidate_id], self._scores[candidate_id]
        above = [value - self._within(worth + self._ease[task]) for task, value in scores.items()]
        return math.fsum(above) / len(above)

    def _standing(self, candidate_id: str) -> Standing:
        worth = self._worth[candidate_id]
        deviation = self._deviation(candidate_id)
        if math.isinf(self.top):
            return Standing(worth, deviation)
        expected = [self._within(worth + self._ease[task]) for task in self._shared or self._ease]
        return _below(self.top, math.fsum(expected) / len(expected), deviation)

    def _deviation(self, candidate_id: str) -> float:
        task_count, step = len(self._scores[candidate_id]), PRIOR_STEP * self._scale
        return math.sqrt(1.0 / (task_count / max(self._noise**2, 1e-12) + 1.0 / step**2))

    def _refit(self) -> None:
        if not self._stale:
            return
        self._stale = False
        self._standings.clear()
        values = [value for scores in self._scores.values() for value in scores.values()]
        if not values:
            return
        low, high = min(values), max(values)
        self._scale = max(1.0, high - low) if high > 1.0 or low < 0.0 else 1.0
        self._bottom = 0.0 if low >= 0.0 and not math.isinf(self.top) else -math.inf
        centre = math.fsum(values) / len(values)
        for candidate_id in self._scores:
            if candidate_id not in self._worth:
                parent = self._parents[candidate_id]
                self._worth[candidate_id] = self._worth.get(parent or "", centre)
        for task in self._by_task:
            self._ease.setdefault(task, 0.0)
        self._shared = [task for task, scores in self._by_task.items() if len(scores) > 1]
        for _ in range(SWEEPS):
            self._fit_ease()
            self._fit_worth(centre)
        self._fit_noise()

    def _fit_ease(self) -> None:
        noise = max(self._noise, 1e-6) ** 2
        prior = noise / (EASE * self._scale) ** 2
        for task, scores in self._by_task.items():
            self._ease[task] = self._solved(scores, self._worth, self._ease[task], prior, 0.0)
        if self._ease:
            # Worth is the mean over tasks, so the mean ease must be zero.
            mean = math.fsum(self._ease.values()) / len(self._ease)
            for task in self._ease:
                self._ease[task] -= mean

    def _fit_worth(self, centre: float) -> None:
        noise = max(self._noise, 1e-6) ** 2
        near = noise / (PRIOR_STEP * self._scale) ** 2
        far = noise / self._scale**2  # flat prior: the first candidate has no parent
        for id, scores in self._scores.items():
            parent = self._parents[id]
            from_parent = parent is not None and parent in self._worth
            prior = near if from_parent else far
            towards = self._worth[parent] if from_parent and parent is not None else centre
            towards, prior = self._with_children(id, towards, prior, near)
            self._worth[id] = self._solved(scores, self._ease, self._worth[id], prior, towards)

    def _with_children(
        self, candidate_id: str, towards: float, prior: float, near: float
    ) -> tuple[float, float]:
        """The expectation of a candidate's worth and its weight, given its children's scores."""
        total, count = prior * towards, prior
        for child in self._children.get(candidate_id, ()):
            apart = (self._worth[child] - self._worth[candidate_id]) / (
                MAX_STEPS_FROM_PARENT * PRIOR_STEP * self._scale
            )
            weight = near * max(0.0, 1.0 - apart * apart) ** 2  # Tukey's biweight
            total += weight * self._worth[child]
            count += weight
        return total / count, count

    def _solved(
        self,
        scores: Mapping[str, float],
        effects: Mapping[str, float],
        own: float,
        prior: float,
        towards: float,
    ) -> float:
        """One side's effect, given the other side's, shrunk towards its expectation.

        Newton's method: a score at an end of the scale counts only while the prediction is short of
        it.
        """
        top, bottom = self.top - SCORE_TOLERANCE, self._bottom + SCORE_TOLERANCE
        pairs = [(value, value - effects[name]) for name, value in scores.items()]
        for _ in range(1 if math.isinf(self.top) else NEWTON_STEPS_PER_SIDE):
            total, count = prior * towards, prior
            for value, left in pairs:
                if (left > own or value < top) and (left < own or value > bottom):
                    total += left
                    count += 1
            own = total / count
        return own

    def _fit_noise(self) -> None:
        squares, count = 0.0, 0
        top, bottom = self.top - SCORE_TOLERANCE, self._bottom + SCORE_TOLERANCE
        for id, scores in self._scores.items():
            worth = self._worth[id]
            for task, value in scores.items():
                expected = worth + self._ease[task]
                if (value >= top and expected >= value) or (value <= bottom and expected <= value):
                    continue
                squares += (value - expected) ** 2
                count += 1
        prior = PRIOR_WEIGHT * (PRIOR_NOISE * self._scale) ** 2
        self._noise = math.sqrt((squares + prior) / (count + PRIOR_WEIGHT))

    def _within(self, value: float) -> float:
        return max(self._bottom, min(self.top, value))


def _below(top: float, mean: float, deviation: float) -> Standing:
    """The estimate of a normal distribution truncated at `top`."""
    z = (top - mean) / deviation
    density = math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
    ratio = density / (0.5 * math.erfc(-z / math.sqrt(2.0)))
    share = 1.0 - z * ratio - ratio * ratio
    return Standing(mean - deviation * ratio, deviation * math.sqrt(share))
