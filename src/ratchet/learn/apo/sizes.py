"""Sizes: how much of a budget goes into what, decided before anything is spent."""

from __future__ import annotations

import math

import msgspec

LEAST_PANEL = 4
LEAST_RUNG = 3
LEAST_VAL = 4
"""Tasks below which a round says nothing."""

ROLLOUTS_UNLIMITED = 1_000
"""What is planned with where rollouts are not limited."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
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


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
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


def sizes(wanted: Wanted, *, rollouts: int | None, train: int, val: int, concurrency: int) -> Sizes:
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
    return Sizes(
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
