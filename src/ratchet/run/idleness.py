"""Idleness: how long a runner has had nothing to do, as far as it was told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

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
