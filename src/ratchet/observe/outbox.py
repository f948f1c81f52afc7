"""Outbox: statements of feedback that wait to be sent, and the thread that sends them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from ratchet.types import Feedback, is_bad

_log = logging.getLogger("ratchet")

MOST_WAITING = 1_000
"""Statements that wait to be sent; those that come when there are more are dropped."""

BATCH = 200
"""Statements in one request at most."""

EXIT_S = 5.0
"""How long the end of a process waits for its feedback."""

_PAUSE_S = (0.25, 30.0)
"""Shortest and longest pause before the target is asked again."""


class Taker(Protocol):
    """Takes feedback. Called by one thread at a time."""

    def take(self, items: Sequence[Feedback]) -> None:
        """Store feedback; it is stored when this returns.

        Raises:
            Away: Later perhaps.
            Refused: Never.
        """
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class Outbox:
    """Statements that wait, and the thread that sends them.

    Args:
        open: Opens what they are sent to; called by the thread, with the first of them.
        setting: What that depends on: when it is another one, it is opened anew.
    """

    def __init__(
        self, open: Callable[[], Taker], setting: Callable[[], object] = lambda: None
    ) -> None:
        self._open = open
        self._setting = setting
        self._begin()

    def _begin(self) -> None:
        """Everything that belongs to one process."""
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._waiting: deque[Feedback] = deque()
        self._in_hand = 0
        self._taker: Taker | None = None
        self._opened_for: object = None
        self._thread: threading.Thread | None = None
        self._hurry = False
        self._told_full = False

    def put(self, item: Feedback) -> bool:
        """Have a statement sent; False when too many wait."""
        if is_bad(item):
            _keep(item)
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                if not self._told_full:
                    self._told_full = True
                    _log.warning("%d statements of feedback wait; more are dropped.", MOST_WAITING)
                return False
            self._waiting.append(item)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="ratchet-feedback", daemon=True)
                self._thread = thread
                try:
                    thread.start()
                except RuntimeError:  # the interpreter is ending
                    self._thread = None
                    return False
            self._changed.notify_all()
        return True

    def flush(self, timeout_s: float) -> bool:
        """Send what waits. Returns whether all of it is stored now."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            while self._waiting or self._in_hand:
                left = deadline - time.monotonic()
                if left <= 0 or self._thread is None or not self._thread.is_alive():
                    return False
                self._changed.wait(left)
            return True

    def at_exit(self) -> None:
        """Send what waits, within a bound."""
        if self._pid != os.getpid() or not (self._waiting or self._in_hand):
            return
        if not self.flush(EXIT_S):
            _log.warning("%d statements of feedback could not be sent.", len(self._waiting) or 1)

    def forked(self) -> None:
        """Begin anew in a child process: what waits is its parent's."""
        # Kept alive: their finalizers would say goodbye on connections that are the parent's.
        self._inherited = (self._taker, self._thread)
        self._begin()

    def _run(self) -> None:
        from ratchet.observe.live import untraced

        untraced()
        pause_s = 0.0
        while True:
            with self._changed:
                if pause_s and not self._hurry:
                    self._changed.wait(pause_s)
                while not self._waiting:
                    self._changed.wait()
                self._hurry = False
                items = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                self._in_hand = len(items)
            left = self._deliver(items)
            pause_s = min(max(2 * pause_s, _PAUSE_S[0]), _PAUSE_S[1]) if left else 0.0
            with self._changed:
                self._waiting.extendleft(reversed(left))
                self._in_hand = 0
                self._changed.notify_all()

    def _deliver(self, items: Sequence[Feedback]) -> Sequence[Feedback]:
        """Send; return what has to be sent again."""
        from ratchet.observe.sending import Away, Refused

        try:
            taker = self._current()
            try:
                taker.take(items)
            except Refused:
                # One of them is at fault: the others must not suffer for it.
                for item in items:
                    try:
                        taker.take([item])
                    except Refused as error:
                        _log.warning("Feedback %s was refused: %s", item.id, error)
        except Away as error:
            _log.debug("Feedback waits: %s", error)
            return items
        except Exception as error:  # whatever it is, it is no reason to stop
            _log.warning("Feedback could not be sent: %s: %s", type(error).__name__, error)
        return ()

    def _current(self) -> Taker:
        setting = self._setting()
        if self._taker is not None and setting != self._opened_for:
            self._taker.close()
            self._taker = None
        if self._taker is None:
            self._taker = self._open()
            self._opened_for = setting
        return self._taker


def _keep(item: Feedback) -> None:
    """Have sampling keep what somebody was not content with."""
    from ratchet.observe import sink

    keep = getattr(sink._live, "keep", None)
    if keep is not None:
        keep(item.trace_id, item.conversation_id)
