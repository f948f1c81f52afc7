"""How many commands run at once, from what the first of them used of the processor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil


def busy_s() -> float:
    """Seconds, of all cores, in which this machine has been busy."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


class MeasuredSlots:
    """Runs one command per core at first, then as many as the cores can keep up with.

    Args:
        cores: Number of cores.
        most: Maximum number of commands at once, for those that mostly wait.
        busy_s: Seconds in which the cores were busy so far, also with other programs.
        clock: Seconds.
    """

    def __init__(
        self,
        cores: int,
        most: int,
        *,
        busy_s: Callable[[], float] = busy_s,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.slots = min(cores, most)
        """Number of commands at once."""
        self._cores = cores
        self._most = most
        self._busy_s = busy_s
        self._clock = clock
        self._busy_before: float | None = None
        self._left = cores
        self._begun: list[float] = []
        self._ran_s = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """While a command runs."""
        if self._busy_before is None:
            self._busy_before = self._busy_s()
        began = self._clock()
        self._begun.append(began)
        try:
            yield
        finally:
            self._begun.remove(began)
            self._ran_s += self._clock() - began
            self._left -= 1
            if self._left == 0:
                self._decide(self._busy_s() - self._busy_before)

    def _decide(self, busy_s: float) -> None:
        ran_s = self._ran_s + sum(self._clock() - began for began in self._begun)
        share = busy_s / ran_s if ran_s > 0 else 1.0
        self.slots = max(
            1, min(self._most, round(self._cores / share) if share > 0 else self._most)
        )
