"""Which frozen sets guard an experiment, with what margins and draws: fixed beforehand."""

from __future__ import annotations

import hashlib

import msgspec

from ratchet.prove.plan_checks import check_counts, check_numbers
from ratchet.types import InputError
from ratchet.types.frozen_set import FROZEN_TASKS


class FrozenGuardrail(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen set that guards an experiment.

    Raises:
        InputError: A value is out of range.
    """

    set_id: str
    problem_id: str
    title: str
    """The problem's title."""
    version: int
    """The set's version."""
    tasks: tuple[str, ...]
    """Ids of the tasks that are drawn from, in the set's order."""
    margin: float
    """The smallest unacceptable mean loss, in points of the score."""
    draws: int
    """Maximum number of draws of this set, each run once with each candidate."""
    seed: str
    """Determines which task each draw takes."""

    def __post_init__(self) -> None:
        check_numbers(self, 1e-6, 1.0 - 1e-6, "margin")
        check_counts(self, 1, 10**6, "draws")
        if not 1 <= len(set(self.tasks)) == len(self.tasks) <= FROZEN_TASKS:
            raise InputError(
                f"Frozen set {self.set_id}: expected 1 to {FROZEN_TASKS} different tasks, found"
                f" {len(self.tasks)}."
            )

    def drawn(self, number: int) -> str:
        """Id of the task of a draw, counted from 0: each draw picks any task with equal
        probability."""
        digest = hashlib.sha256(f"{self.seed}/{number}".encode()).digest()
        return self.tasks[int.from_bytes(digest[:8], "big") % len(self.tasks)]


class FrozenPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The frozen sets of one experiment.

    Raises:
        InputError: There is no set, one is given twice, or a number is out of range.
    """

    sets: tuple[FrozenGuardrail, ...]
    """In the order in which they were chosen: worst loss first, then newest."""
    draws: int
    """Maximum number of draws of all sets together."""
    noise: float
    """Largest probability that an answer flips by chance at which an equally good candidate still
    passes all sets with a probability of 0.95."""

    def __post_init__(self) -> None:
        check_numbers(self, 0.0, 1.0, "noise")
        check_counts(self, 1, 10**6, "draws")
        ids = [planned.set_id for planned in self.sets]
        if not ids or len(set(ids)) != len(ids):
            raise InputError("FrozenPlan: there are no sets, or one of them is given twice.")
