"""Ends of attempts that no agent reported on: they were cut off, or never began."""

from __future__ import annotations

import time

from ratchet.observe import readable
from ratchet.run.attempt import CAUSES, MAX_ERROR_CHARACTERS
from ratchet.types import AttemptStatus, Cause, Claim, Outcome


class AttemptClock:
    """When an attempt began, and how long it has taken."""

    def __init__(self) -> None:
        self.started_at = time.time()
        self._clock = time.perf_counter()

    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self._clock


def cut_off(
    claim: Claim,
    status: AttemptStatus,
    error: str,
    clock: AttemptClock | None = None,
    cause: Cause | None = None,
) -> Outcome:
    """The outcome of an attempt that an executor ended, or of one that never began.

    Args:
        claim: The attempt.
        status: How it ended.
        error: A sentence for people.
        clock: When it began; None where it never did.
        cause: What ended it; None for what the status says.
    """
    begun = clock or AttemptClock()
    return Outcome(
        rollout_id=claim.rollout.id,
        fence=claim.fence,
        status=status,
        started_at=begun.started_at,
        ended_at=time.time(),
        duration_s=begun.elapsed_s() if clock else None,
        error=readable(error[:MAX_ERROR_CHARACTERS]),
        cause=CAUSES.get(status, "") if cause is None else cause,
    )
