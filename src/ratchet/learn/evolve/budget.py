"""How a budget is divided: the first look at the baseline, the search, the comparison on val."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from ratchet.learn.budget import BudgetExhausted
from ratchet.learn.lab import Lab
from ratchet.learn.work import Evaluation
from ratchet.types import Candidate, Task

FINAL_SHARE = 0.15
"""Share of the rollouts that is kept for the comparison on val."""

GENERATIONS = 8
"""At least so many generations follow each other, however many rollouts may run at once."""

UNLIMITED = 4096
"""Rollouts that a search without a limit is planned for."""


class SearchPlan(msgspec.Struct, frozen=True, kw_only=True):
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
) -> SearchPlan:
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
    """Counts what a search commits.

    Args:
        lab: Whose budget it is.
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

    @property
    def rollouts(self) -> int:
        """Rollouts committed."""
        return len(self._cells)

    @property
    def coach_calls(self) -> int:
        """Coach calls committed."""
        return self._calls

    @property
    def dollars(self) -> float:
        """Dollars that are known to be spent; calls whose price is unknown are not counted."""
        return math.fsum(self._costs)

    def commit(self, candidate: Candidate, tasks: Iterable[Task]) -> None:
        """Rollouts are about to begin."""
        self._cells.update((candidate.id, task.id) for task in tasks)

    def release(self, candidate: Candidate, tasks: Iterable[Task]) -> None:
        """Rollouts were not begun after all."""
        self._cells.difference_update((candidate.id, task.id) for task in tasks)

    def commit_calls(self, calls: int) -> None:
        """So many coach calls may be made; a negative number gives back what was not."""
        self._calls += calls

    def note(self, evaluations: Sequence[Evaluation]) -> None:
        """Rollouts ended, and cost something."""
        self._known += len(evaluations)
        self._costs.extend(one.rollout.cost.known_usd for one in evaluations)

    def note_cost(self, dollars: float) -> None:
        """A coach call cost something."""
        self._costs.append(dollars)

    def left(self) -> float:
        """Rollouts that may still be asked for, as far as one knows what they cost."""
        left = math.inf
        if self._budget.rollouts is not None:
            left = self._budget.rollouts - self._rollouts_before - self.rollouts
        if self._budget.dollars is not None:
            dollars = self._budget.dollars - self._dollars_before - self.dollars
            if dollars <= 0:
                return 0
            if self._known and self.dollars > 0:
                # Coach calls count as part of what a rollout costs: both go on as they went.
                under_way = self.rollouts - self._known
                left = min(left, dollars * self._known / self.dollars - under_way)
        return max(0.0, left)

    def calls_left(self) -> float:
        """Coach calls that may still be made."""
        if self._budget.coach_calls is None:
            return math.inf
        return self._budget.coach_calls - self._calls_before - self._calls
