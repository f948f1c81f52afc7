"""What learning may spend, and what it has spent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ratchet.types import ConfigError, Cost, RatchetError, total_cost


class BudgetExhausted(RatchetError):
    """The next step would cost more than is left. Algorithms end with what they have."""

    exit_code = 2  # where it ends a command, the budget did not reach for one step


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits; None is no limit."""

    rollouts: int | None = None
    seconds: float | None = None
    """Wall-clock seconds of work after which no new step begins: what was found is still compared.
    The time between a kill and its resumption does not count."""
    coach_calls: int | None = None
    """Calls of the coach LLM."""
    dollars: float | None = None
    """Dollars after which nothing new runs. What a rollout costs is known when it has ended, so
    those under way may exceed it. Calls whose price is unknown are not counted."""

    def __post_init__(self) -> None:
        for name in ("rollouts", "seconds", "coach_calls", "dollars"):
            limit = getattr(self, name)
            if limit is not None and not (math.isfinite(limit) and limit > 0):
                raise ConfigError(f"The budget's {name} = {limit} is not a positive number.")


class Spent(msgspec.Struct, kw_only=True):
    """What has been spent so far. What a resumed run replays counts as when it was first spent."""

    rollouts: int = 0
    seconds: float = 0.0
    coach_calls: int = 0
    dollars: float = 0.0
    """Of the calls whose price is known."""
    unpriced: dict[str, int] = {}
    """Number of calls whose price is unknown, by model."""

    @property
    def cost(self) -> Cost:
        """Dollars of rollouts and coach calls."""
        return Cost(known_usd=self.dollars, unpriced=self.unpriced)


def unpriced_sentence(model: str, budget: Budget) -> str:
    """That the price of a model is unknown, and what follows from that."""
    of = f"of the model {model!r}" if model else "of a model that was called"
    text = (
        f"The price {of} is unknown, so the cost of its calls is not measured;"
        " [prices] in ratchet.toml sets it."
    )
    if budget.dollars is not None:
        text += f" The budget of ${budget.dollars:g} cannot count them."
    return text


def out_of_time(budget: Budget, spent: Spent) -> str:
    """That the seconds are spent; empty when they are not."""
    if budget.seconds is not None and spent.seconds >= budget.seconds:
        return f"{spent.seconds:.0f} of {budget.seconds:g} seconds are spent"
    return ""


def exceeded(
    budget: Budget, spent: Spent, *, more_rollouts: int = 0, more_coach_calls: int = 0
) -> str:
    """Which limit but time is reached, or would be by so many more; empty when none is."""
    if budget.rollouts is not None and spent.rollouts + more_rollouts > budget.rollouts:
        return f"{spent.rollouts} of {budget.rollouts} rollouts are spent"
    if (
        budget.coach_calls is not None
        and more_coach_calls
        and spent.coach_calls + more_coach_calls > budget.coach_calls
    ):
        return f"{spent.coach_calls} of {budget.coach_calls} coach calls are spent"
    if budget.dollars is not None and spent.dollars >= budget.dollars:
        return f"${spent.dollars:.2f} of ${budget.dollars:g} are spent"
    return ""


class BudgetLedger:
    """The budget of a lab, or a part of it that a part of the lab may spend.

    What a part spends, the whole has spent; what was paid for once, by whatever part, costs no part
    anything again.

    Args:
        budget: What may be spent.
        whole: The purse that this one is a part of.
        now: Seconds, on the clock that `tick` is given.
    """

    def __init__(self, budget: Budget, *, now: float, whole: BudgetLedger | None = None) -> None:
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

    def _levels(self) -> Iterator[BudgetLedger]:
        purse: BudgetLedger | None = self
        while purse is not None:
            yield purse
            purse = purse._whole
