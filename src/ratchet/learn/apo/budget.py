"""Sizes: how much of a budget goes into what, decided before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from ratchet.learn.lab import Lab
from ratchet.learn.work import Evaluation
from ratchet.llm import Reply

LEAST_PANEL = 4
LEAST_RUNG = 3
LEAST_VAL = 4
"""Tasks below which a round says nothing."""

ROLLOUTS_UNLIMITED = 1_000
"""What is planned with where rollouts are not limited."""


class SizeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the options ask for, as Agent Lightning names it."""

    gradient_batch_size: int = 4
    val_batch_size: int = 16
    beam_width: int = 4
    branch_factor: int = 4
    beam_rounds: int = 3

    @property
    def per_round(self) -> int:
        """Proposals of one round."""
        return self.beam_width * self.branch_factor


class SearchSizes(msgspec.Struct, frozen=True, kw_only=True):
    """How large everything is."""

    rollouts: int
    """What is planned with in all."""
    panel: int
    """Train tasks that the baseline runs first; candidates are compared on them."""
    panel_most: int
    """Train tasks that the panel grows to."""
    most: int
    """Train tasks that a proposal runs until it is decided, at most; the leaders run more."""
    rung: int
    """Tasks that a proposal runs first; then as many again, and so on."""
    val: int
    """Val tasks that the finalists run."""
    finalists: int
    beam: int
    """Prompts that are kept to go on from."""
    passes: int
    """Edits one after another from the same critiques, at most."""
    width: int
    """Proposals under way at the same time."""
    round: int
    """Proposals of one round."""

    @property
    def reserve(self) -> int:
        """Rollouts that are kept for the finalists, without those of the baseline on val."""
        return self.val * self.finalists


def least(train: int, val: int) -> int:
    """Rollouts below which there is no round."""
    return min(train, LEAST_PANEL) + min(train, LEAST_RUNG) + 2 * min(val, LEAST_VAL)


def sizes(
    wanted: SizeOptions, *, rollouts: int | None, train: int, val: int, concurrency: int
) -> SearchSizes:
    """Divide a budget.

    Small budgets go into few proposals, one after another, that are each made from more; large
    ones into as many at once as the options ask for.

    Args:
        wanted: What the options ask for.
        rollouts: The budget, at least `least`; None where it is not limited.
        train: Train tasks that there are.
        val: Val tasks that there are.
        concurrency: Rollouts that run at once.
    """
    budget = ROLLOUTS_UNLIMITED if rollouts is None else rollouts
    finalists = min(wanted.beam_width, 1 if budget < 80 else 2 if budget < 250 else 3)
    val_share = round(0.2 * budget / (1 + finalists))
    val_tasks = min(val, wanted.val_batch_size, max(LEAST_VAL, val_share))
    batch = wanted.gradient_batch_size
    panel = min(train, max(LEAST_PANEL, min(4 * batch, round(0.2 * budget))))
    panel_most = min(train, max(panel, min(4 * panel, round(0.06 * budget))))
    rung = min(panel, max(LEAST_RUNG, min(4, round(budget / 15))))
    search = max(0, budget - panel - val_tasks * (1 + finalists))
    proposals = search / (rung + 0.35 * (panel - rung))
    useful = math.ceil(2 * concurrency / rung)
    width = max(1, min(wanted.per_round, useful, int(proposals / 10)))
    return SearchSizes(
        rollouts=budget,
        panel=panel,
        panel_most=panel_most,
        most=max(panel, min(panel_most, 6 * rung)),
        rung=rung,
        val=val_tasks,
        finalists=finalists,
        beam=max(1, min(wanted.beam_width, round(budget / 100))),
        # The coach is asked more before a rollout is spent where those are scarcest, and where
        # there are so many that single edits would fill them with little.
        passes=3 if 100 <= budget < 250 else 5,
        width=width,
        round=max(1, min(wanted.per_round, int(proposals / wanted.beam_rounds))),
    )


PLENTY = 10**9
"""What is left where nothing is limited."""


class SearchSpending:
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
