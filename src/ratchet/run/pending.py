"""Wanted: the rollouts that somebody waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

import msgspec

from ratchet.types import Outcome, Rollout, RolloutStatus


class PendingRollouts:
    """A future for each rollout that somebody waits for; who waits for the same shares it."""

    def __init__(self) -> None:
        self._futures: dict[str, asyncio.Future[Rollout]] = {}

    def __bool__(self) -> bool:
        return bool(self._futures)

    def __contains__(self, rollout_id: str) -> bool:
        return rollout_id in self._futures

    def add(self, rollout_id: str) -> asyncio.Future[Rollout]:
        """Want a rollout; the future tells how it ended."""
        new = asyncio.get_running_loop().create_future()
        return self._futures.setdefault(rollout_id, new)

    def but(self, others: Collection[str]) -> list[str]:
        """What is wanted and not among the others."""
        return [rollout_id for rollout_id in self._futures if rollout_id not in others]

    def settle(self, rollout: Rollout) -> None:
        """A rollout has ended."""
        future = self._futures.pop(rollout.id, None)
        if future is not None and not future.done():
            future.set_result(rollout)

    def fail(self, error: BaseException) -> None:
        """None of them will end here."""
        for future in self._futures.values():
            if not future.done():
                future.set_exception(error)
        self._futures.clear()


def after(rollout: Rollout, outcome: Outcome, status: RolloutStatus) -> Rollout:
    """A rollout after the outcome that ended it, when that was its only attempt and cost nothing.

    What others cost, and how often they failed, is only in the store.
    """
    return msgspec.structs.replace(
        rollout,
        status=status,
        output=outcome.output,
        error=outcome.error,
        duration_s=outcome.duration_s,
        started_at=outcome.started_at,
        ended_at=outcome.ended_at,
    )


LOOK_S = 0.05
"""How often is looked at least; at most a tenth of the time that is waited for."""

UNANSWERED_S = 60.0
"""How much longer than it may be idle a runner waits for the answer that nothing is queued."""


class Idleness:
    """Since when there is nothing to do.

    It is not known before somebody has said so: on a busy machine, or with a server that hangs, the
    first question may take longer to be answered than a runner may be idle.

    Args:
        clock: Seconds, from any beginning, never going back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._busy_at = clock()
        self._in_vain = False

    def busy(self) -> None:
        """There is, or was until now, something to do."""
        self._busy_at = self._clock()
        self._in_vain = False

    def in_vain(self) -> None:
        """Somebody was asked for something to do, and has nothing."""
        self._in_vain = True

    def left_s(self, max_idle_s: float) -> float:
        """Seconds until there will have been nothing to do for so long; 0 when there was.

        Where nobody answered, that is `UNANSWERED_S` later.
        """
        until = self._busy_at + max_idle_s + (0.0 if self._in_vain else UNANSWERED_S)
        return max(0.0, until - self._clock())

    async def lasts(self, max_idle_s: float, is_busy: Callable[[], bool]) -> None:
        """Wait until there was nothing to do for so long.

        Args:
            max_idle_s: How long.
            is_busy: Whether there is something to do now.
        """
        while True:
            if is_busy():
                self.busy()
            left = self.left_s(max_idle_s)
            if left <= 0:
                return
            await asyncio.sleep(min(left, max(max_idle_s / 10, LOOK_S)))
