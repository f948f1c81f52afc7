"""A bandit over operators: those whose proposals survive are selected more often.

Thompson sampling (Thompson 1933; Russo et al. 2018) on the share of proposals that survive their
first tasks. Counts decay, since the operators that help early in a search are not those that help
late (adaptive operator selection: Fialho et al. 2010).
"""

from __future__ import annotations

import random
from collections.abc import Iterable

FADE = 0.985
"""Decay factor of a count at each new observation."""

FLOOR = 0.15
"""Minimum weight of an operator relative to the best."""


class Bandit:
    """Success and failure counts by arm, each starting from one success and one failure."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[float, float]] = {}

    def choose(self, arms: Iterable[str], rng: random.Random) -> str:
        """An arm, drawn by its probability of being the best."""
        return max((self.draw(arm, rng), arm) for arm in sorted(arms))[1]

    def draw(self, arm: str, rng: random.Random) -> float:
        """A survival rate drawn from the arm's posterior."""
        return rng.betavariate(*self._beta(arm))

    def weights(self, arms: Iterable[str]) -> dict[str, float]:
        """Relative weight of each arm: its success rate divided by the best arm's."""
        shares = {arm: self.share(arm) for arm in arms}
        best = max(shares.values(), default=1.0)
        return {arm: max(FLOOR, share / best) for arm, share in shares.items()}

    def share(self, arm: str) -> float:
        """Estimated survival rate of an arm's proposals."""
        good, bad = self._beta(arm)
        return good / (good + bad)

    def seen(self) -> list[str]:
        """Arms that have counts."""
        return list(self._counts)

    def count(self, arm: str, survived: bool) -> None:
        """Record the outcome of a proposal."""
        good, bad = self._counts.get(arm, (0.0, 0.0))
        self._counts[arm] = (FADE * good + survived, FADE * bad + (not survived))

    def _beta(self, arm: str) -> tuple[float, float]:
        good, bad = self._counts.get(arm, (0.0, 0.0))
        return good + 1.0, bad + 1.0
