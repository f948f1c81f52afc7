"""Divides a budget between the source's first tasks, the race, and the comparison on val."""

from __future__ import annotations

import math

import msgspec

from ratchet.learn.budget import BudgetExhausted
from ratchet.learn.lab import Lab
from ratchet.learn.search import numbers

MIN_START_TASKS, MIN_FIRST_TASKS, MIN_VAL_TASKS = 4, 3, 4
"""Minimum number of tasks that tell anything: for the source on train, a candidate, and on val."""


class SearchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a search."""

    start: int
    """Train tasks that the source runs before the first candidate."""
    first: int
    """Train tasks of a rewrite's first part."""
    draft: int
    """Train tasks of a mutant's first part."""
    val: int
    """Minimum number of val tasks on which the finalists are compared."""
    finalists: int
    mutants: int
    """Mutants of one batch."""

    @property
    def reserve(self) -> int:
        """Rollouts kept for the finalists, without the source's own."""
        return self.val * self.finalists


def least(train: int, val: int) -> int:
    """The fewest rollouts that a search can be made with."""
    return min(train, MIN_START_TASKS) + min(train, MIN_FIRST_TASKS) + 2 * min(val, MIN_VAL_TASKS)


def make_plan(
    rollouts: float,
    *,
    train: int,
    val: int,
    slots: int,
    first: int,
    most_val: int | None = None,
    finalists: int | None = None,
    most_finalists: int | None = None,
) -> SearchPlan:
    """Divide a budget.

    Args:
        rollouts: Rollouts left, at least `least`; infinite if unlimited.
        train: Number of train tasks.
        val: Number of val tasks.
        slots: Number of rollouts that run at once.
        first: Train tasks of a candidate's first part, where the budget allows.
        most_val: Maximum val tasks to reserve for.
        finalists: Number of finalists; by the budget if None.
        most_finalists: Maximum of that number.
    """
    budget = int(min(rollouts, numbers.UNLIMITED_ROLLOUTS))
    count = finalists or next((n for limit, n in numbers.FINALISTS_BY_BUDGET if budget < limit), 3)
    count = min(count, most_finalists or count)
    wanted = max(min(MIN_VAL_TASKS, val), round(numbers.VAL_SHARE * budget / (1 + count)))
    val_tasks = min(val, most_val or val, wanted)
    while count > 1 and budget - val_tasks * (1 + count) < MIN_START_TASKS + MIN_FIRST_TASKS:
        count -= 1
    start = min(train, max(MIN_START_TASKS, round(numbers.START_SHARE * budget)))
    part = min(start, max(MIN_FIRST_TASKS, min(first, budget // 15)))
    search = max(0, budget - start - val_tasks * (1 + count))
    draft = min(part, numbers.DRAFT_TASKS)
    batch = min(math.ceil(2 * slots / draft), search // (draft * numbers.GENERATIONS))
    return SearchPlan(
        start=start,
        first=part,
        draft=draft,
        val=val_tasks,
        finalists=count,
        mutants=max(2, batch),
    )


def check_rest(lab: Lab) -> None:
    """Check that the dollars cover one candidate, once the price of a rollout is known.

    Raises:
        BudgetExhausted: They do not.
    """
    fewest = min(len(lab.train), MIN_FIRST_TASKS) + 2 * min(len(lab.val), MIN_VAL_TASKS)
    if rollouts_left(lab) < fewest:
        price = lab.spent.dollars / max(1, lab.spent.rollouts)
        raise BudgetExhausted(
            f"The dollars left do not cover one candidate: at least {fewest} rollouts are needed, "
            f"at ${price:.4f} each.",
            hint="Raise dollars under [improve.budget].",
        )


def rollouts_left(lab: Lab) -> float:
    """Rollouts that the rest of the budget pays for, at the average price so far."""
    left = math.inf
    budget, spent = lab.budget, lab.spent
    if budget.rollouts is not None:
        left = budget.rollouts - spent.rollouts
    if budget.dollars is not None:
        dollars = budget.dollars - spent.dollars
        if dollars <= 0:
            return 0
        if spent.dollars > 0 and spent.rollouts:
            left = min(left, dollars * spent.rollouts / spent.dollars)
    return max(0.0, left)


def calls_left(lab: Lab) -> float:
    """Coach calls that the rest of the budget pays for."""
    limit = lab.budget.coach_calls
    return math.inf if limit is None else max(0, limit - lab.spent.coach_calls)
