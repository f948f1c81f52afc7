"""Sizes: allocates a budget to the parts of a search before anything is spent."""

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
"""Minimum number of tasks for a meaningful round."""

ROLLOUTS_UNLIMITED = 1_000
"""Planned rollouts if their number is not limited."""


class SizeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The size options, with Agent Lightning's names."""

    gradient_batch_size: int = 4
    val_batch_size: int = 16
    beam_width: int = 4
    branch_factor: int = 4
    beam_rounds: int = 3

    @property
    def per_round(self) -> int:
        """Number of proposals per round."""
        return self.beam_width * self.branch_factor


class SearchSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a search."""

    rollouts: int
    """Total number of rollouts planned."""
    panel: int
    """Initial number of train tasks in the panel: the baseline runs them, and candidates are
    compared on them."""
    panel_most: int
    """Number of train tasks that the panel may grow to."""
    most: int
    """Maximum train tasks that a proposal runs before a decision; leaders run more."""
    rung: int
    """Number of tasks in a proposal's first part; later parts double."""
    val: int
    """Number of val tasks that the finalists run."""
    finalists: int
    beam: int
    """Number of prompts in the beam."""
    passes: int
    """Maximum number of successive edits from the same critiques."""
    width: int
    """Number of proposals in flight."""
    round: int
    """Number of proposals per round."""

    @property
    def reserve(self) -> int:
        """Rollouts reserved for the finalists, without the baseline's on val."""
        return self.val * self.finalists


def least(train: int, val: int) -> int:
    """Minimum number of rollouts for one round."""
    return min(train, LEAST_PANEL) + min(train, LEAST_RUNG) + 2 * min(val, LEAST_VAL)


def sizes(
    options: SizeOptions, *, rollouts: int | None, train: int, val: int, concurrency: int
) -> SearchSizes:
    """Divide a budget.

    Small budgets get few sequential proposals, each based on more evidence; large ones as many
    concurrent proposals as the options request.

    Args:
        options: The requested sizes.
        rollouts: The budget, at least `least`; None if unlimited.
        train: Number of train tasks.
        val: Number of val tasks.
        concurrency: Number of rollouts that run at once.
    """
    budget = ROLLOUTS_UNLIMITED if rollouts is None else rollouts
    finalists = min(options.beam_width, 1 if budget < 80 else 2 if budget < 250 else 3)
    val_share = round(0.2 * budget / (1 + finalists))
    val_tasks = min(val, options.val_batch_size, max(LEAST_VAL, val_share))
    batch = options.gradient_batch_size
    panel = min(train, max(LEAST_PANEL, min(4 * batch, round(0.2 * budget))))
    panel_most = min(train, max(panel, min(4 * panel, round(0.06 * budget))))
    rung = min(panel, max(LEAST_RUNG, min(4, round(budget / 15))))
    search = max(0, budget - panel - val_tasks * (1 + finalists))
    proposals = search / (rung + 0.35 * (panel - rung))
    useful = math.ceil(2 * concurrency / rung)
    width = max(1, min(options.per_round, useful, int(proposals / 10)))
    return SearchSizes(
        rollouts=budget,
        panel=panel,
        panel_most=panel_most,
        most=max(panel, min(panel_most, 6 * rung)),
        rung=rung,
        val=val_tasks,
        finalists=finalists,
        beam=max(1, min(options.beam_width, round(budget / 100))),
        # More coach calls precede a rollout where rollouts are scarcest, and where there are so
        # many that single edits would spend them on too little.
        passes=3 if 100 <= budget < 250 else 5,
        width=width,
        round=max(1, min(options.per_round, int(proposals / options.beam_rounds))),
    )


PLENTY = 10**9
"""Amount left where nothing is limited."""


class SearchSpending:
    """Tracks rollouts, coach calls and dollars spent.

    Args:
        lab: The lab that owns the budget.
        reserve: Rollouts reserved for the comparison on val.
        known: Evaluations already run.
    """

    def __init__(self, lab: Lab, *, reserve: int, known: Iterable[Evaluation]) -> None:
        self._lab = lab
        self._reserve = reserve
        self._rollouts_before = lab.spent.rollouts
        self._calls_before = lab.spent.coach_calls
        self._rollouts = 0
        self._calls = 0
        self._known = 0
        """Number of rollouts included in the dollars."""
        self._dollars = 0.0
        self.ended(list(known))

    def begun(self, rollouts: int) -> None:
        """Record rollouts that were requested."""
        self._rollouts += rollouts

    def drew(self, rollouts: int) -> None:
        """Record requested rollouts that belong to the reserve."""
        self._rollouts += rollouts
        self._reserve = max(0, self._reserve - rollouts)

    def settle(self) -> None:
        """Replace requested rollouts by those actually charged: repeated ones are free."""
        self._rollouts = self._lab.spent.rollouts - self._rollouts_before

    def ended(self, evaluations: Sequence[Evaluation]) -> None:
        """Add the cost of ended rollouts."""
        self._known += len(evaluations)
        self._dollars += math.fsum(e.rollout.cost.known_usd for e in evaluations)

    def ask(self, calls: int) -> None:
        """Reserve coach calls; a negative number releases unused ones."""
        self._calls += calls

    def answered(self, replies: Sequence[Reply]) -> None:
        """Add the cost of coach calls."""
        self._dollars += math.fsum(reply.cost.known_usd for reply in replies)

    def rollouts_left(self, asked: int) -> int:
        """Number of rollouts that may still start.

        Args:
            asked: Rollouts requested so far, ended or not.
        """
        budget = self._lab.budget
        left: float = math.inf
        if budget.rollouts is not None:
            left = budget.rollouts - self._rollouts_before - self._rollouts
        if budget.dollars is not None and self._dollars > 0 and self._known:
            # The price of a rollout includes its share of coach calls, at the rate so far.
            dollars = budget.dollars - self._dollars
            left = min(left, dollars * self._known / self._dollars - (asked - self._known))
        return int(min(left, PLENTY)) - self._reserve

    def calls_left(self) -> int:
        """Number of coach calls that may still be made."""
        limit = self._lab.budget.coach_calls
        return PLENTY if limit is None else limit - self._calls_before - self._calls
