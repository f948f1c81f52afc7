"""What an algorithm is: it works in a lab and returns the best candidate it found."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import msgspec

from ratchet.learn.lab import Lab
from ratchet.types import Candidate

Cause: TypeAlias = Literal["budget", "solved", "limit", "idle", "coach"]
"""Why a search ended: its budget is spent, nothing is left to gain, a limit of its options is
reached, nothing new or better comes, or the coach is lost."""


class SearchEnd(msgspec.Struct, frozen=True):
    """How a search ended."""

    cause: Cause
    why: str
    """The same for people: a clause."""


SPENT = SearchEnd("budget", "the budget is spent")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What an algorithm came to."""

    best: Candidate
    """The best candidate; the baseline when nothing was better."""
    baseline_val: float
    """Mean objective of the baseline on val."""
    best_val: float
    """Mean objective of the best on val."""
    proposals: int
    """How many candidates were tried."""
    sentence: str
    """What was done and why it ended, for people."""
    ended: Cause = "budget"
    """Why it ended. Only after `budget` may more budget bring more."""
    val_tasks: int = 0
    """Val tasks that both means are over; whoever called the algorithm fills it in."""


class Algorithm(Protocol):
    """Proposes candidates from rollouts.

    One that asks a coach says so by an attribute `needs_coach`: True, or None when it only takes
    one where there is one. `coach_options` may hold keys of [coach] that win over the
    configuration's, such as `model` and `base_url`.
    """

    @property
    def name(self) -> str:
        """Its name, as candidates and runs record it."""
        ...

    async def learn(self, lab: Lab) -> Finding:
        """Search until the budget is spent or nothing is left to try.

        Raises:
            InputError: There is nothing here that it can improve.
            BudgetExhausted: The budget does not reach for the first step.
        """
        ...
