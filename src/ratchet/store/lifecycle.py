"""State transitions of a rollout when one of its attempts ends, as pure functions."""

from __future__ import annotations

from typing import NamedTuple, cast

from ratchet.types import (
    MAX_DELIVERIES,
    ROLLOUT_TRANSITIONS,
    SPOILED,
    AttemptStatus,
    Conflict,
    RolloutStatus,
)

REPORTABLE: frozenset[AttemptStatus] = SPOILED | {"succeeded", "inconclusive", "cancelled"}
"""Statuses that an executor may report for an attempt; each is a final status of a rollout too."""


class LockedRollout(NamedTuple):
    """A rollout's state, locked until the transaction ends."""

    seq: int
    status: RolloutStatus
    fence: int
    failures: int
    max_attempts: int

    def runs(self, fence: int) -> bool:
        """Whether the attempt with that fence is running."""
        return self.status == "running" and self.fence == fence


class StatusChange(NamedTuple):
    """The new state of a rollout."""

    status: RolloutStatus
    failures: int
    error: str


def end_of(rollout: LockedRollout, status: AttemptStatus, error: str) -> StatusChange:
    """Decide the new state of a running rollout whose attempt ended with `status`.

    A failed attempt counts as a failure and is retried while attempts are left. One whose runner
    disappeared is retried without counting. MAX_DELIVERIES limits both.
    """
    failures = rollout.failures + (status in SPOILED)
    spoiled_for_good = status in SPOILED and failures >= rollout.max_attempts
    if spoiled_for_good or status in REPORTABLE - SPOILED:
        change = StatusChange(cast(RolloutStatus, status), failures, error)
    elif rollout.fence < MAX_DELIVERIES:
        change = StatusChange("queued", failures, "")
    else:
        last = f" The last attempt: {error}" if error else ""
        error = f"Claimed {rollout.fence} times without a result.{last}"
        change = StatusChange("crashed", failures, error)
    require(rollout.status, change.status)
    return change


def require(before: RolloutStatus, after: RolloutStatus) -> None:
    """Raise Conflict unless ROLLOUT_TRANSITIONS allows the transition."""
    if after not in ROLLOUT_TRANSITIONS[before]:
        raise Conflict(f"A rollout that is {before} cannot become {after}.")
