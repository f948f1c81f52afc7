"""Pending rollouts and idleness: what a runner is still waiting for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

import msgspec

from ratchet.types import Outcome, Rollout, RolloutStatus


class PendingRollouts:
    """Futures of the rollouts that callers wait for, shared between callers of the same rollout."""

    def __init__(self) -> None:
        self._futures: dict[str, asyncio.Future[Rollout]] = {}

    def __bool__(self) -> bool:
        return bool(self._futures)

    def __contains__(self, rollout_id: str) -> bool:
        return rollout_id in self._futures

    def add(self, rollout_id: str) -> asyncio.Future[Rollout]:
        """Future of a rollout; its result is the ended rollout."""
        new = asyncio.get_running_loop().create_future()
        return self._futures.setdefault(rollout_id, new)

    def except_for(self, excluded: Collection[str]) -> list[str]:
        """Ids of pending rollouts that are not among these."""
        return [rollout_id for rollout_id in self._futures if rollout_id not in excluded]

    def settle(self, rollout: Rollout) -> None:
        """Resolve the future of a rollout that has ended."""
        future = self._futures.pop(rollout.id, None)
        if future is not None and not future.done():
            future.set_result(rollout)

    def fail(self, error: BaseException) -> None:
        """Fail all futures."""
        for future in self._futures.values():
            if not future.done():
                future.set_exception(error)
        self._futures.clear()


def after(rollout: Rollout, outcome: Outcome, status: RolloutStatus) -> Rollout:
    """A rollout after its only attempt, if that had no cost.

    Costs and failures of other attempts are only in the store.
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


MIN_CHECK_INTERVAL_S = 0.05
"""Minimum interval between checks, which is a tenth of the maximum idle time."""

UNANSWERED_S = 60.0
"""Time added to the idle time of a runner while no claim has been answered."""


class Idleness:
    """Tracks how long a runner has had nothing to do.

    A runner is idle only once a claim has come back empty: on a busy machine, or with a server that
    hangs, the first claim may take longer than the idle time.

    Args:
        clock: Monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._busy_at = clock()
        self._claimed_nothing = False

    def busy(self) -> None:
        """Record that there is something to do."""
        self._busy_at = self._clock()
        self._claimed_nothing = False

    def claimed_nothing(self) -> None:
        """Record that a claim came back empty."""
        self._claimed_nothing = True

    def left_s(self, max_idle_s: float) -> float:
        """Seconds until the runner has been idle for `max_idle_s`, at least 0.

        `UNANSWERED_S` more while no claim has come back empty.
        """
        until = self._busy_at + max_idle_s + (0.0 if self._claimed_nothing else UNANSWERED_S)
        return max(0.0, until - self._clock())

    async def lasts(self, max_idle_s: float, is_busy: Callable[[], bool]) -> None:
        """Wait until the runner has been idle for `max_idle_s`.

        Args:
            max_idle_s: Idle time in seconds.
            is_busy: Returns whether there is something to do now.
        """
        while True:
            if is_busy():
                self.busy()
            left = self.left_s(max_idle_s)
            if left <= 0:
                return
            await asyncio.sleep(min(left, max(max_idle_s / 10, MIN_CHECK_INTERVAL_S)))
