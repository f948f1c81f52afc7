"""Budget limits for learning, and the ledger of what has been spent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ratchet.types import ConfigError, Cost, RatchetError, total_cost


class BudgetExhausted(RatchetError):
    """The next step would exceed the budget. Algorithms end with their best result so far."""

    exit_code = 2  # where it ends a command, the budget did not cover a single step


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits; None means unlimited."""

    rollouts: int | None = None
    seconds: float | None = None
    """Wall-clock seconds of work after which no new step begins; results so far are still compared.
    The time between a kill and its resumption does not count."""
    coach_calls: int | None = None
    """Calls of the coach LLM."""
    dollars: float | None = None
    """Dollars after which no new work starts. The cost of a rollout is known only when it ends, so
    rollouts in flight may exceed the limit. Calls whose price is unknown are not counted."""

    def __post_init__(self) -> None:
        for name in ("rollouts", "seconds", "coach_calls", "dollars"):
            limit = getattr(self, name)
            if limit is not None and not (math.isfinite(limit) and limit > 0):
                raise ConfigError(f"The budget's {name} = {limit} is not a positive number.")


class Spent(msgspec.Struct, kw_only=True):
    """Amounts spent so far. Replayed work of a resumed run counts as it did the first time."""

    rollouts: int = 0
    seconds: float = 0.0
    coach_calls: int = 0
    dollars: float = 0.0
    """Cost of the calls whose price is known."""
    unpriced: dict[str, int] = {}
    """Number of calls whose price is unknown, by model."""

    @property
    def cost(self) -> Cost:
        """Cost of rollouts and coach calls in dollars."""
        return Cost(known_usd=self.dollars, unpriced=self.unpriced)


def unpriced_sentence(model: str, budget: Budget) -> str:
    """Sentence stating that a model's price is unknown, and the consequence for the budget."""
    of = f"of the model {model!r}" if model else "of a model that was called"
    text = (
        f"The price {of} is unknown, so the cost of its calls is not measured;"
        " [prices] in ratchet.toml sets it."
    )
    if budget.dollars is not None:
        text += f" The budget of ${budget.dollars:g} cannot count them."
    return text


def out_of_time(budget: Budget, spent: Spent) -> str:
    """Message that the time limit is reached; empty if it is not."""
    if budget.seconds is not None and spent.seconds >= budget.seconds:
        return f"{spent.seconds:.0f} of {budget.seconds:g} seconds are spent"
    return ""


def exceeded(
    budget: Budget, spent: Spent, *, more_rollouts: int = 0, more_coach_calls: int = 0
) -> str:
    """The limit, other than time, that is or would be exceeded; empty if none."""
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
    """The account of a lab's budget, or of the part of it that a part of the lab may spend.

    Spending of a part counts against the whole. Work that was paid for once, by whichever part, is
    free for every part.

    Args:
        budget: Spending limits.
        whole: The parent ledger.
        now: Current time in seconds, on the clock passed to `tick`.
    """

    def __init__(self, budget: Budget, *, now: float, whole: BudgetLedger | None = None) -> None:
        self.budget = budget
        self.spent = Spent()
        self._whole = whole
        self._since = now
        self._costs: list[Cost] = []
        self._paid: set[str] = set() if whole is None else whole._paid

    def fresh(self, names: Iterable[str]) -> list[str]:
        """The names not paid for yet, without duplicates."""
        return list(dict.fromkeys(name for name in names if name not in self._paid))

    def refusal(self, *, rollouts: int = 0, coach_calls: int = 0) -> str:
        """Why this many more are refused; empty if they are allowed."""
        for ledger in self._levels():
            reached = exceeded(
                ledger.budget, ledger.spent, more_rollouts=rollouts, more_coach_calls=coach_calls
            )
            if reached:
                return reached
        return ""

    def take_rollouts(self, names: Sequence[str]) -> None:
        """Charge the rollouts that `fresh` returned."""
        self._paid.update(names)
        for ledger in self._levels():
            ledger.spent.rollouts += len(names)

    def take_call(self, name: str) -> None:
        """Charge a coach call; calls in flight count."""
        self._paid.add(name)
        for ledger in self._levels():
            ledger.spent.coach_calls += 1

    def give_back_call(self, name: str) -> None:
        """Refund a coach call that ended without an answer."""
        self._paid.discard(name)
        for ledger in self._levels():
            ledger.spent.coach_calls -= 1

    def pay(self, costs: Iterable[Cost]) -> None:
        """Add the cost of rollouts or calls."""
        new = list(costs)
        for ledger in self._levels():
            ledger._costs.extend(new)
            # Rounded once, so that the order in which they end does not matter.
            cost = total_cost(ledger._costs)
            ledger.spent.dollars = cost.known_usd
            ledger.spent.unpriced = cost.unpriced

    def tick(self, now: float) -> None:
        """Update the elapsed time."""
        for ledger in self._levels():
            ledger.spent.seconds += now - ledger._since
            ledger._since = now

    def reached(self) -> str:
        """The limit that is reached, time included; empty if none."""
        for ledger in self._levels():
            reached = out_of_time(ledger.budget, ledger.spent) or exceeded(
                ledger.budget, ledger.spent
            )
            if reached:
                return reached
        return ""

    @property
    def seconds(self) -> list[float]:
        """Seconds spent, of this ledger and of each of its ancestors."""
        return [ledger.spent.seconds for ledger in self._levels()]

    def recall(self, seconds: Any) -> None:
        """Restore the elapsed seconds that the journal recorded for a step."""
        for ledger, then in zip(self._levels(), seconds, strict=False):
            ledger.spent.seconds = float(then)

    def _levels(self) -> Iterator[BudgetLedger]:
        ledger: BudgetLedger | None = self
        while ledger is not None:
            yield ledger
            ledger = ledger._whole
