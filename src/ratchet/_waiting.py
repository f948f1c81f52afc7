"""What this process waits for, so that whoever watches it can be told."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

LONG_S = 10.0
"""Seconds from which on a wait is told."""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is awaited."""

    what: str
    """As an object: `the coach`."""
    since: float
    """Unix seconds."""

    def sentence(self, now: float) -> str:
        """The wait and how long it has lasted: `waiting for the coach, 95 s`."""
        return f"waiting for {self.what}, {max(0.0, now - self.since):.0f} s"


class Waits:
    """The waits of a process, by what is awaited. Thread-safe.

    Several tasks may wait for the same: it is one wait, which is over once something comes.

    Args:
        clock: Unix seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._open: dict[int, str] = {}
        self._since: dict[str, float] = {}

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Mark that something is awaited in this context."""
        with self._lock:
            number = next(self._numbers)
            self._open[number] = what
            self._since.setdefault(what, self._clock())
        try:
            yield
        finally:
            with self._lock:
                del self._open[number]
                if what not in self._open.values():
                    del self._since[what]

    def came(self, what: str) -> None:
        """Mark that some of what is awaited came: the wait begins anew."""
        with self._lock:
            if what in self._since:
                self._since[what] = self._clock()

    def long(self) -> list[Wait]:
        """The waits of at least `LONG_S`, the longest first."""
        now = self._clock()
        with self._lock:
            found = [Wait(what=what, since=since) for what, since in self._since.items()]
        long = [wait for wait in found if now - wait.since >= LONG_S]
        return sorted(long, key=lambda wait: wait.since)


WAITS = Waits()
"""The waits of this process."""
