"""What this process waits for, so that whoever watches it can be told."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

LONG_S = 10.0
"""Seconds from which on a wait is told."""


class LongWait(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is awaited."""

    what: str
    """As an object: `the coach`."""
    since: float
    """Unix seconds."""

    def sentence(self, now: float) -> str:
        """The wait and how long it has lasted: `waiting for the coach, 95 s`."""
        return f"waiting for {self.what}, {max(0.0, now - self.since):.0f} s"


class Waits:
    """The waits of a process, by what is awaited.

    Several tasks may wait for the same: it is one wait, which begins anew when something comes.
    Threads may use it at once, and a process may fork at any time: it has no lock, and each change
    is one operation of a dictionary.

    Args:
        clock: Unix seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._numbers = itertools.count()
        self._open: dict[int, LongWait] = {}
        self._came: dict[str, float] = {}

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Mark that something is awaited in this context."""
        number = next(self._numbers)
        self._open[number] = LongWait(what=what, since=self._clock())
        try:
            yield
        finally:
            self._open.pop(number, None)

    def came(self, what: str) -> None:
        """Mark that some of what is awaited came."""
        self._came[what] = self._clock()

    def long(self) -> list[LongWait]:
        """The waits of at least `LONG_S`, the longest first."""
        now, first = self._clock(), dict[str, float]()
        for wait in tuple(self._open.values()):
            first[wait.what] = min(wait.since, first.get(wait.what, wait.since))
        found = [
            LongWait(what=what, since=max(since, self._came.get(what, since)))
            for what, since in first.items()
        ]
        long = [wait for wait in found if now - wait.since >= LONG_S]
        return sorted(long, key=lambda wait: wait.since)


WAITS = Waits()
"""The waits of this process."""
