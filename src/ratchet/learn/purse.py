"""A purse: what a budget allows, what of it is spent, and what was paid for already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ratchet.learn.budget import Budget, Spent, exceeded, out_of_time
from ratchet.types import Cost, total_cost


class Purse:
    """The budget of a lab, or a part of it that a part of the lab may spend.

    What a part spends, the whole has spent; what was paid for once, by whatever part, costs no part
    anything again.

    Args:
        budget: What may be spent.
        whole: The purse that this one is a part of.
        now: Seconds, on the clock that `tick` is given.
    """

    def __init__(self, budget: Budget, *, now: float, whole: Purse | None = None) -> None:
        self.budget = budget
        self.spent = Spent()
        self._whole = whole
        self._since = now
        self._costs: list[Cost] = []
        self._paid: set[str] = set() if whole is None else whole._paid

    def fresh(self, names: Iterable[str]) -> list[str]:
        """The names that were not paid for yet, each once."""
        return list(dict.fromkeys(name for name in names if name not in self._paid))

    def refusal(self, *, rollouts: int = 0, coach_calls: int = 0) -> str:
        """Why so many more are not allowed; empty when they are."""
        for purse in self._levels():
            reached = exceeded(
                purse.budget, purse.spent, more_rollouts=rollouts, more_coach_calls=coach_calls
            )
            if reached:
                return reached
        return ""

    def take_rollouts(self, names: Sequence[str]) -> None:
        """Begin rollouts, which `fresh` has named."""
        self._paid.update(names)
        for purse in self._levels():
            purse.spent.rollouts += len(names)

    def take_call(self, name: str) -> None:
        """Begin a coach call; calls under way count."""
        self._paid.add(name)
        for purse in self._levels():
            purse.spent.coach_calls += 1

    def give_back_call(self, name: str) -> None:
        """A coach call ended without an answer."""
        self._paid.discard(name)
        for purse in self._levels():
            purse.spent.coach_calls -= 1

    def pay(self, costs: Iterable[Cost]) -> None:
        """Add what rollouts or calls have cost."""
        new = list(costs)
        for purse in self._levels():
            purse._costs.extend(new)
            # Rounded once: the same in whatever order they end.
            cost = total_cost(purse._costs)
            purse.spent.dollars = cost.known_usd
            purse.spent.unpriced = cost.unpriced

    def tick(self, now: float) -> None:
        """Time went by."""
        for purse in self._levels():
            purse.spent.seconds += now - purse._since
            purse._since = now

    def reached(self) -> str:
        """Which limit is reached, time included; empty when none is."""
        for purse in self._levels():
            reached = out_of_time(purse.budget, purse.spent) or exceeded(purse.budget, purse.spent)
            if reached:
                return reached
        return ""

    @property
    def seconds(self) -> list[float]:
        """Seconds spent, of this purse and of each that it is a part of."""
        return [purse.spent.seconds for purse in self._levels()]

    def recall(self, seconds: Any) -> None:
        """Take over the seconds of a step that was journaled: on resuming, what it took then."""
        for purse, then in zip(self._levels(), seconds, strict=False):
            purse.spent.seconds = float(then)

    def _levels(self) -> Iterator[Purse]:
        purse: Purse | None = self
        while purse is not None:
            yield purse
            purse = purse._whole
