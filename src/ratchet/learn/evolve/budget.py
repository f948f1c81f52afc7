"""Divides a budget between the baseline's first tasks, the search, and the comparison on val."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from ratchet.learn.budget import BudgetExhausted
from ratchet.learn.lab import Lab
from ratchet.learn.work import Evaluation
from ratchet.types import Candidate, Task

FINAL_SHARE = 0.15
"""Share of the rollouts reserved for the comparison on val."""

GENERATIONS = 8
"""Minimum number of successive generations, whatever the concurrency."""

UNLIMITED = 4096
"""Planned rollouts of an unlimited search."""


class SearchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a search."""

    first: int
    """Number of tasks in a candidate's first part."""
    start: int
    """Number of train tasks that the baseline runs before the first proposal."""
    val: int
    """Number of val tasks on which finalists are compared."""
    finalists: int
    reserve: int
    """Rollouts reserved for the comparison."""
    breadth: int
    """Maximum number of proposals in flight."""
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
) -> SearchPlan:
    """Divide a budget.

    Args:
        rollouts: The budget; infinite if unlimited.
        train: Number of train tasks.
        val: Number of val tasks.
        first: Maximum number of tasks in a candidate's first part.
        finalists: Number of candidates compared on val; derived from the budget if None.
        islands: Number of islands; derived from the budget if None.
        at_once: Target number of rollouts in flight.

    Raises:
        BudgetExhausted: The budget does not cover one round.
    """
    first = min(first, train)
    least_val = min(2, val)
    needed = 2 * first + 2 * least_val
    if rollouts < needed:
        raise BudgetExhausted(
            f"The budget does not cover one round: it takes {needed} rollouts, {first} of the"
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
    return SearchPlan(
        first=first,
        start=start,
        val=per,
        finalists=count,
        reserve=reserve,
        breadth=breadth,
        islands=islands or max(1, min(4, search // 1000)),
    )


class SearchLedger:
    """Tracks the committed spending of a search.

    Args:
        lab: The lab that owns the budget.
    """

    def __init__(self, lab: Lab) -> None:
        self._budget = lab.budget
        self._rollouts_before = lab.spent.rollouts
        self._dollars_before = lab.spent.dollars
        self._calls_before = lab.spent.coach_calls
        self._cells: set[tuple[str, str]] = set()
        self._known = 0
        self._costs: list[float] = []
        self._calls = 0
        self._reserved = 0

    @property
    def rollouts(self) -> int:
        """Number of rollouts committed."""
        return len(self._cells)

    @property
    def coach_calls(self) -> int:
        """Number of coach calls committed."""
        return self._calls

    @property
    def dollars(self) -> float:
        """Dollars spent, without calls whose price is unknown."""
        return math.fsum(self._costs)

    def commit(self, candidate: Candidate, tasks: Iterable[Task]) -> None:
        """Commit rollouts that are about to start."""
        self._cells.update((candidate.id, task.id) for task in tasks)

    def release(self, candidate: Candidate, tasks: Iterable[Task]) -> None:
        """Release rollouts that did not start."""
        self._cells.difference_update((candidate.id, task.id) for task in tasks)

    @property
    def calls_reserved(self) -> int:
        """Coach calls reserved by proposals in progress, which may not need them all."""
        return self._reserved

    def reserve_calls(self, calls: int) -> None:
        """Reserve the coach calls that a proposal may need."""
        self._calls += calls
        self._reserved += calls

    def settle_calls(self, reserved: int, used: int) -> None:
        """Commit the coach calls that a proposal used, and release the rest."""
        self._calls += used - reserved
        self._reserved -= reserved

    def note(self, evaluations: Sequence[Evaluation]) -> None:
        """Record ended rollouts and their cost."""
        self._known += len(evaluations)
        self._costs.extend(one.rollout.cost.known_usd for one in evaluations)

    def note_cost(self, dollars: float) -> None:
        """Record the cost of a coach call."""
        self._costs.append(dollars)

    def left(self) -> float:
        """Number of rollouts that may still be committed, at the measured price."""
        left = math.inf
        if self._budget.rollouts is not None:
            left = self._budget.rollouts - self._rollouts_before - self.rollouts
        if self._budget.dollars is not None:
            dollars = self._budget.dollars - self._dollars_before - self.dollars
            if dollars <= 0:
                return 0
            if self._known and self.dollars > 0:
                # The price of a rollout includes its share of coach calls, at the rate so far.
                under_way = self.rollouts - self._known
                left = min(left, dollars * self._known / self.dollars - under_way)
        return max(0.0, left)

    def calls_left(self) -> float:
        """Number of coach calls that may still be made."""
        if self._budget.coach_calls is None:
            return math.inf
        return self._budget.coach_calls - self._calls_before - self._calls
