"""How a budget is divided: the first look at the baseline, the search, the comparison on val."""

from __future__ import annotations

import math

import msgspec

from ratchet.learn.budget import BudgetExhausted

FINAL_SHARE = 0.15
"""Share of the rollouts that is kept for the comparison on val."""

GENERATIONS = 8
"""At least so many generations follow each other, however many rollouts may run at once."""

UNLIMITED = 4096
"""Rollouts that a search without a limit is planned for."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers that a search keeps to."""

    first: int
    """Tasks of a candidate's first part."""
    start: int
    """Train tasks that the baseline runs before anything is proposed."""
    val: int
    """Val tasks on which finalists are compared."""
    finalists: int
    reserve: int
    """Rollouts kept for the comparison."""
    breadth: int
    """Proposals under way at once, at most."""
    islands: int


def make_plan(
    rollouts: float,
    *,
    train: int,
    val: int,
    first: int,
    finalists: int | None,
    islands: int | None,
    at_once: int,
) -> Plan:
    """Divide a budget.

    Args:
        rollouts: What may be spent; infinite without a limit.
        train: Train tasks there are.
        val: Val tasks there are.
        first: Tasks of a candidate's first part, at most.
        finalists: Candidates compared on val; by the budget when None.
        islands: Islands; by the budget when None.
        at_once: Rollouts to keep under way.

    Raises:
        BudgetExhausted: It does not reach for one round.
    """
    first = min(first, train)
    least_val = min(2, val)
    needed = 2 * first + 2 * least_val
    if rollouts < needed:
        raise BudgetExhausted(
            f"The budget does not reach for one round: it takes {needed} rollouts, {first} of the"
            f" source and {first} of a proposal on train, and {2 * least_val} on val to compare"
            f" them, and {rollouts:.0f} are left.",
            hint="Raise rollouts under [improve.budget].",
        )
    planned = int(min(rollouts, UNLIMITED))
    count = finalists or max(1, min(5, planned // 100))
    per = max(least_val, min(val, int(FINAL_SHARE * planned / (count + 1))))
    while needed - 2 * least_val + per * (count + 1) > planned and (per > least_val or count > 1):
        per, count = max(least_val, per - 1), max(1, count - 1)
    reserve = per * (count + 1)
    search = planned - reserve
    start = min(train, max(2 * first, min(planned // 16, 24)))
    if search - start < first:
        start = first
    breadth = max(2, min(math.ceil(2 * at_once / first), search // (first * GENERATIONS)))
    return Plan(
        first=first,
        start=start,
        val=per,
        finalists=count,
        reserve=reserve,
        breadth=breadth,
        islands=islands or max(1, min(4, search // 1000)),
    )
