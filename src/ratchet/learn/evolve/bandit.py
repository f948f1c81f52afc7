"""A bandit over ways to propose: what has survived is asked more often, what failed less.

Thompson sampling (Thompson 1933; Russo et al. 2018) on the share of proposals that survived their
first tasks. Counts fade, since what helps early in a search is not what helps late (adaptive
operator selection: Fialho et al. 2010).
"""

from __future__ import annotations

import random
from collections.abc import Iterable

FADE = 0.985
"""What a count keeps of its weight at each further one."""

FLOOR = 0.15
"""The least weight that an operator has beside the best."""


class Bandit:
    """Counts of what survived, by arm; each begins with one success and one failure."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[float, float]] = {}

    def choose(self, arms: Iterable[str], rng: random.Random) -> str:
        """An arm, drawn by how likely it is to be the best."""
        return max((self.draw(arm, rng), arm) for arm in sorted(arms))[1]

    def draw(self, arm: str, rng: random.Random) -> float:
        """A share of survivors that an arm may have, drawn by how likely it is."""
        return rng.betavariate(*self._beta(arm))

    def weights(self, arms: Iterable[str]) -> dict[str, float]:
        """How much to prefer each arm: its share of successes over the best one's."""
        shares = {arm: self.share(arm) for arm in arms}
        best = max(shares.values(), default=1.0)
        return {arm: max(FLOOR, share / best) for arm, share in shares.items()}

    def share(self, arm: str) -> float:
        """The share of an arm's proposals that survive, as far as one knows."""
        good, bad = self._beta(arm)
        return good / (good + bad)

    def seen(self) -> list[str]:
        """Arms that have counts."""
        return list(self._counts)

    def count(self, arm: str, survived: bool) -> None:
        """Take what became of a proposal."""
        good, bad = self._counts.get(arm, (0.0, 0.0))
        self._counts[arm] = (FADE * good + survived, FADE * bad + (not survived))

    def _beta(self, arm: str) -> tuple[float, float]:
        good, bad = self._counts.get(arm, (0.0, 0.0))
        return good + 1.0, bad + 1.0
