"""What learning may spend, and what it has spent."""

from __future__ import annotations

import math

import msgspec

from ratchet.types import ConfigError, Cost, RatchetError


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
    text = f"The price {of} is unknown: what its calls cost is not measured."
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
