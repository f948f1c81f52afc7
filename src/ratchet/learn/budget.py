"""Budget limits for learning, and the ledger of what has been spent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ratchet.llm import Account, Reply, why_unknown
from ratchet.types import BudgetExhausted, ConfigError, Cost, dollars_text

__all__ = ["Budget", "BudgetExhausted", "BudgetLedger", "Spent"]


def too_few_rollouts(message: str) -> BudgetExhausted:
    """The error of a budget in which an algorithm cannot begin, before anything is spent."""
    return BudgetExhausted(
        message,
        hint="Raise --rollouts, or rollouts under [improve.budget]; a few hundred are typical. With"
        " fewer tasks, fewer are needed.",
    )


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits; None means unlimited."""

    rollouts: int | None = None
    seconds: float | None = None
    """Seconds of work after which no new step begins; results so far are still compared. The time
    between a kill and its resumption does not count."""
    coach_calls: int | None = None
    """Coach calls."""
    dollars: float | None = None
    """Dollars of rollouts, coach calls and judges' calls. Calls whose price is unknown are not
    counted."""

    def __post_init__(self) -> None:
        for name in ("rollouts", "seconds", "coach_calls", "dollars"):
            limit = getattr(self, name)
            if limit is not None and not (math.isfinite(limit) and limit > 0):
                raise ConfigError(f"The budget's {name} = {limit} is not a positive number.")


class Spent(msgspec.Struct, kw_only=True):
    """Amounts spent so far. Work that a resumed run replays counts as it did the first time."""

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
    """Sentence on why the cost of a model's calls is unknown, and what that means."""
    why = why_unknown(model)
    text = f"The cost of some calls is not measured: {why}."
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
        return f"{dollars_text(spent.dollars)} of ${budget.dollars:g} is spent"
    return ""


class BudgetLedger:
    """The account of a lab's budget, or of the share of it that a part of the lab has.

    Spending of a part counts against the whole. Work that was paid for once, by whichever part, is
    free for every part.

    Args:
        budget: Spending limits.
        parent: The parent ledger.
        now: Current time in seconds, on the clock passed to `tick`.
        record: Called with each reply of a model that was paid for, and who asked.
        within: The account that pays, too, such as a command's.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        now: float,
        parent: BudgetLedger | None = None,
        record: Callable[[str, Reply], None] | None = None,
        within: Account | None = None,
    ) -> None:
        self.budget = budget
        self.account: Account = Account(
            budget.dollars,
            name="The part of the budget" if parent else "The budget for learning",
            hint="Raise dollars under [improve.budget] in ratchet.toml.",
            within=parent.account if parent else within,
            record=record,
        )
        """Pays for rollouts and model calls."""
        self._spent = Spent()
        self._whole = parent
        self._since = now
        self._paid: set[str] = set() if parent is None else parent._paid
        self._ended: list[tuple[str, float]] = [] if parent is None else parent._ended
        """Kind and end time, in Unix seconds, of each piece of work."""

    @property
    def spent(self) -> Spent:
        """Amounts spent so far."""
        cost = self.account.cost
        self._spent.dollars, self._spent.unpriced = cost.known_usd, cost.unpriced
        return self._spent

    def fresh(self, names: Iterable[str]) -> list[str]:
        """The names not paid for yet, without duplicates."""
        return list(dict.fromkeys(name for name in names if name not in self._paid))

    def refusal(self, *, rollouts: int = 0, coach_calls: int = 0) -> str:
        """Why this many more rollouts or calls are refused; empty if they are allowed."""
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
            ledger._spent.rollouts += len(names)

    def give_back_rollouts(self, names: Sequence[str]) -> None:
        """Refund rollouts that were not run."""
        self._paid.difference_update(names)
        for ledger in self._levels():
            ledger._spent.rollouts -= len(names)

    def take_call(self, name: str) -> None:
        """Charge a coach call; calls in flight count."""
        self._paid.add(name)
        for ledger in self._levels():
            ledger._spent.coach_calls += 1

    def give_back_call(self, name: str) -> None:
        """Refund a coach call that ended without an answer."""
        self._paid.discard(name)
        for ledger in self._levels():
            ledger._spent.coach_calls -= 1

    def pay(self, costs: Iterable[Cost]) -> None:
        """Add the cost of work that an earlier attempt of the run paid for."""
        new = list(costs)
        for ledger in self._levels():
            ledger.account.add(new)

    def tick(self, now: float) -> None:
        """Update the elapsed time."""
        for ledger in self._levels():
            ledger._spent.seconds += now - ledger._since
            ledger._since = now

    def elapsed(self, now: float) -> float:
        """Seconds spent up to now."""
        return self._spent.seconds + now - self._since

    def note_end(self, kind: str, ended: float) -> None:
        """Record that a piece of work ended, such as a rollout, at this Unix time."""
        self._ended.append((kind, ended))

    def overtime(self, seconds: float, now: float) -> str:
        """Sentence on how far the time limit was exceeded, and why; empty if it was not.

        Args:
            seconds: Seconds spent.
            now: Unix seconds.
        """
        limit = self.budget.seconds
        if limit is None or seconds <= limit:
            return ""
        late = Counter(kind for kind, ended in self._ended if ended > now - (seconds - limit))
        if not late:
            return ""
        what = " and ".join(f"{n} {kind}{'' if n == 1 else 's'}" for kind, n in late.items())
        return (
            f"Learning took {seconds:.0f} s, with a limit of {limit:g} s: the step that was under "
            f"way and the final comparison are completed, which took {what} more."
        )

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
            ledger._spent.seconds = float(then)

    def _levels(self) -> Iterator[BudgetLedger]:
        ledger: BudgetLedger | None = self
        while ledger is not None:
            yield ledger
            ledger = ledger._whole
