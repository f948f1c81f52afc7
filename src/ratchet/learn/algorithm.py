"""The interface of learning algorithms: search in a lab and return the best candidate found."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from ratchet.learn.lab import Lab
from ratchet.types import Candidate, InputError

Cause: TypeAlias = Literal[
    "budget", "solved", "limit", "idle", "coach", "coach_unusable", "no_gain"
]
"""Why a search ended: the budget is spent, nothing is left to gain, a configured limit is reached,
no new or better candidates appear, the coach is unavailable, none of the coach's answers could be
used, or none of them brought a gain."""


class SearchEnd(msgspec.Struct, frozen=True):
    """How a search ended."""

    cause: Cause
    why: str
    """The reason as a clause, for messages."""


SPENT = SearchEnd("budget", "the budget is spent")

NOTHING_TO_LEARN = "Every train and val task is solved already, so there is nothing to learn."

CALLS_SPENT = SearchEnd("budget", "the budget's coach calls are spent")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an algorithm."""

    best: Candidate
    """The best candidate; the baseline if none was better."""
    baseline_val: float
    """Mean objective of the baseline on val."""
    best_val: float
    """Mean objective of the best candidate on val."""
    proposals: int
    """Number of candidates evaluated."""
    sentence: str
    """Human-readable summary of the search and why it ended."""
    ended: Cause = "budget"
    """Why it ended. More budget can help only after `budget`."""
    tied: Candidate | None = None
    """If none is better: a candidate that is not shown to be worse than the baseline. Set only by
    algorithms whose changes add something, such as examples, that may help together with other
    changes."""
    val_tasks: int = 0
    """Number of val tasks behind both means; set by the caller of the algorithm."""


def require_tasks(lab: Lab) -> None:
    """Check that there are tasks to learn from and to select by.

    Raises:
        InputError: A split is empty.
    """
    for split, tasks in (("train", lab.train), ("val", lab.val)):
        if not tasks:
            raise InputError(f"There are no {split} tasks.", hint="Change split under [tasks].")


@runtime_checkable
class Algorithm(Protocol):
    """Proposes candidates from rollouts.

    Algorithms that use a coach declare an attribute `needs_coach`: True if required, None if
    optional. `coach_options` may hold keys of [coach] that override the configuration, such as
    `model` and `base_url`.

    Algorithms whose candidates save something, such as tokens, declare `goal = "not worse"`: these
    have to be proved to score no lower than by a margin. An attribute `margin` fixes it; by default
    it is the tightest that the test tasks can prove.
    """

    @property
    def name(self) -> str:
        """Name of the algorithm, as recorded in candidates and runs."""
        ...

    async def learn(self, lab: Lab) -> Finding:
        """Search until the budget is spent or nothing is left to try.

        Raises:
            InputError: No resource of the baseline can be improved by this algorithm.
            BudgetExhausted: The budget does not cover the first step.
        """
        ...
