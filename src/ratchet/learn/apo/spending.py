"""What a search by APO has spent, by its own count: what it decides depends on nothing else.

What the lab has spent depends on what is under way just now, which a resumed search has already.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ratchet.learn.lab import Lab
from ratchet.learn.work import Evaluation
from ratchet.llm import Reply

PLENTY = 10**9
"""What is left where nothing is limited."""


class Spending:
    """Counts rollouts, coach calls and dollars.

    Args:
        lab: Whose budget it is.
        reserve: Rollouts that are kept for the comparison on val.
        known: What has been run already.
    """

    def __init__(self, lab: Lab, *, reserve: int, known: Iterable[Evaluation]) -> None:
        self._lab = lab
        self._reserve = reserve
        self._rollouts_before = lab.spent.rollouts
        self._calls_before = lab.spent.coach_calls
        self._rollouts = 0
        self._calls = 0
        self._known = 0
        """Rollouts whose cost is in the dollars."""
        self._dollars = 0.0
        self.ended(list(known))

    def begun(self, rollouts: int) -> None:
        """Rollouts are asked for."""
        self._rollouts += rollouts

    def drew(self, rollouts: int) -> None:
        """Rollouts are asked for that were kept for the comparison."""
        self._rollouts += rollouts
        self._reserve = max(0, self._reserve - rollouts)

    def settle(self) -> None:
        """Count what was begun by what it took: some of it was run before, and costs nothing."""
        self._rollouts = self._lab.spent.rollouts - self._rollouts_before

    def ended(self, evaluations: Sequence[Evaluation]) -> None:
        """Rollouts ended, and cost something."""
        self._known += len(evaluations)
        self._dollars += math.fsum(e.rollout.cost.known_usd for e in evaluations)

    def ask(self, calls: int) -> None:
        """So many coach calls may be made; a negative number gives back what was not."""
        self._calls += calls

    def answered(self, replies: Sequence[Reply]) -> None:
        """Coach calls cost something."""
        self._dollars += math.fsum(reply.cost.known_usd for reply in replies)

    def rollouts_left(self, asked: int) -> int:
        """Rollouts that may still begin.

        Args:
            asked: Rollouts asked for by now, ended or not.
        """
        budget = self._lab.budget
        left: float = math.inf
        if budget.rollouts is not None:
            left = budget.rollouts - self._rollouts_before - self._rollouts
        if budget.dollars is not None and self._dollars > 0 and self._known:
            # Coach calls count as part of what a rollout costs: both go on as they went.
            dollars = budget.dollars - self._dollars
            left = min(left, dollars * self._known / self._dollars - (asked - self._known))
        return int(min(left, PLENTY)) - self._reserve

    def calls_left(self) -> int:
        """Coach calls that may still be made."""
        limit = self._lab.budget.coach_calls
        return PLENTY if limit is None else limit - self._calls_before - self._calls
