"""The queue between an agent and the thread that sends: bounded, and never waited for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

MAX_SPANS = 20_000
MAX_WEIGHT = 64 * 1024 * 1024
"""Characters, about."""

FLUSH_AT = 512
"""Spans that are not left to gather any longer."""


class BufferedSpan(NamedTuple):
    """A finished span that waits."""

    span: Any
    weight: int
    error: bool


class Buffer:
    """Finished spans that wait to be sent. Safe to use from several threads.

    When it is full the oldest span gives way, one with an error only when there is no other.

    Args:
        wake: Called when the first span comes, and when many have gathered; it may not wait.
        max_spans: Spans at most.
        max_weight: Characters at most.
    """

    def __init__(
        self,
        wake: Callable[[bool], None],
        *,
        max_spans: int = MAX_SPANS,
        max_weight: int = MAX_WEIGHT,
    ) -> None:
        self._wake = wake
        self._max_spans = max_spans
        self._max_weight = max_weight
        # Of the same thread it may be taken twice: a signal's handler or a finalizer may end a
        # span while one is being put here.
        self._lock = threading.RLock()
        self._plain: deque[BufferedSpan] = deque()
        self._errors: deque[BufferedSpan] = deque()
        self._weight = 0
        self.taken = 0
        """Spans that were put here, ever."""
        self.dropped = 0
        """Spans that gave way."""

    def put(self, span: Any, weight: int, error: bool) -> None:
        """Add a span."""
        with self._lock:
            self.taken += 1
            (self._errors if error else self._plain).append(BufferedSpan(span, weight, error))
            self._weight += weight
            count = len(self._plain) + len(self._errors)
            while count > self._max_spans or (self._weight > self._max_weight and count > 1):
                self._weight -= (self._plain or self._errors).popleft().weight
                self.dropped += 1
                count -= 1
        if count == 1 or count == FLUSH_AT:
            self._wake(count == FLUSH_AT)

    def take_all(self) -> list[BufferedSpan]:
        """Take what is there, each of its kind in the order it came."""
        with self._lock:
            plain, errors = self._plain, self._errors
            self._plain, self._errors = deque(), deque()
            self._weight = 0
        return [*plain, *errors]

    def __len__(self) -> int:
        return len(self._plain) + len(self._errors)
