"""What a search has committed, by its own count: what it decides depends on nothing else.

Rollouts are counted as they are asked for, dollars as their rollouts are taken note of, in the
order that the lab's journal keeps. So a resumed search counts the same at each step as the first
time, however much has come back at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ratchet.learn.lab import Lab
from ratchet.learn.work import Evaluation
from ratchet.types import Candidate, Task


class Ledger:
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
