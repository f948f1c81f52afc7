"""The queue between the agent and the sender thread: bounded, and never blocking."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ratchet.types import Feedback

MAX_SPANS = 20_000
MAX_WEIGHT = 64 * 1024 * 1024
"""Characters of all spans, roughly."""

MAX_FEEDBACK = 1_000
"""Statements of feedback; more are refused."""

FLUSH_AT = 512
"""Number of spans that are sent at once, without waiting for more."""


class Buffered(NamedTuple):
    """A finished span or a statement of feedback in the queue."""

    item: Any
    weight: int = 0
    """Characters, roughly."""
    error: bool = False


class Buffer:
    """Finished spans and feedback that wait for the sender thread. Thread-safe.

    A full queue drops its oldest span, one with an error only when there is no other. Feedback is
    never dropped once it is queued.

    Args:
        wake: Called with the first span and with the 512th (True: send at once), and with each
            statement of feedback (True); it must not block.
        max_spans: Maximum number of spans.
        max_weight: Maximum number of characters.
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
        # Reentrant: a signal handler or a finalizer may end a span while this thread adds one.
        self._lock = threading.RLock()
        self._plain: deque[Buffered] = deque()
        self._errors: deque[Buffered] = deque()
        self._feedback: deque[Buffered] = deque()
        self._weight = 0
        self.taken = 0
        """Number of spans added so far."""
        self.dropped = 0
        """Number of spans dropped so far."""

    def put(self, span: Any, weight: int, error: bool) -> None:
        """Add a span."""
        with self._lock:
            self.taken += 1
            (self._errors if error else self._plain).append(Buffered(span, weight, error))
            self._weight += weight
            count = len(self._plain) + len(self._errors)
            while count > self._max_spans or (self._weight > self._max_weight and count > 1):
                self._weight -= (self._plain or self._errors).popleft().weight
                self.dropped += 1
                count -= 1
        if count == 1 or count == FLUSH_AT:
            self._wake(count == FLUSH_AT)

    def put_feedback(self, item: Feedback) -> bool:
        """Add a statement of feedback; return False if the queue holds too many."""
        with self._lock:
            if len(self._feedback) >= MAX_FEEDBACK:
                return False
            self._feedback.append(Buffered(item))
        self._wake(True)
        return True

    def take_all(self) -> list[Buffered]:
        """Empty the queue: spans first, so that feedback follows its trace; each in order."""
        with self._lock:
            plain, errors, feedback = self._plain, self._errors, self._feedback
            self._plain, self._errors, self._feedback = deque(), deque(), deque()
            self._weight = 0
        return [*plain, *errors, *feedback]

    def __len__(self) -> int:
        return len(self._plain) + len(self._errors) + len(self._feedback)
