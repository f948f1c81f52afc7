"""Outbox: statements of feedback that wait to be sent, and the thread that sends them."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ratchet.observe.delivery import Delivery
from ratchet.observe.sending import TransportUnavailable
from ratchet.types import Feedback, is_bad

_log = logging.getLogger("ratchet")

MAX_WAITING = 1_000
"""Statements that wait in memory; those that come when there are more are dropped."""

BATCH = 200
"""Statements that are looked at together."""

EXIT_S = 5.0
"""How long the end of a process waits for its feedback."""

_PAUSE_S = (0.25, 30.0)
"""Shortest and longest pause before what could not be opened is tried again."""


class FeedbackPipeline(NamedTuple):
    """What the thread works with."""

    redact: Callable[[Feedback], Feedback]
    """Done to each statement before it is sent, or kept on disk."""
    delivery: Delivery[Feedback]


class Outbox:
    """Statements that wait, and the thread that sends them.

    What nobody takes waits in the backlog of the delivery, on disk as a rule, and is sent later in
    order, by this process or another.

    Args:
        open: Opens what they are sent with; called by the thread, with the first of them.
        setting: What that depends on: when it is another one, it is opened anew.
    """

    def __init__(
        self, open: Callable[[], FeedbackPipeline], setting: Callable[[], object] = lambda: None
    ) -> None:
        self._open = open
        self._setting = setting
        self._inherited: list[object] = []
        self._begin()

    def _begin(self) -> None:
        """Everything that belongs to one process."""
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._waiting: deque[Feedback] = deque()
        self._in_flight: Sequence[Feedback] = ()
        self._opened: FeedbackPipeline | None = None
        self._opened_with: object = None
        self._thread: threading.Thread | None = None
        self._urgent = self._working = self._closing = self._taken_over = False
        self._warned_full = False

    def put(self, item: Feedback) -> bool:
        """Have a statement sent; False when too many wait."""
        if is_bad(item):
            _keep_trace(item)
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                if not self._warned_full:
                    self._warned_full = True
                    _log.warning("%d statements of feedback wait; more are dropped.", MAX_WAITING)
                return False
            self._waiting.append(item)
            if not self._started():
                self._waiting.pop()
                return False
            self._changed.notify_all()
        return True

    def start(self) -> None:
        """Send what an earlier process left."""
        with self._changed:
            self._urgent = True
            self._started()
            self._changed.notify_all()

    def _started(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="ratchet-feedback", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is ending
                return False
            self._thread = thread
        return True

    def flush(self, timeout_s: float) -> bool:
        """Send what waits. Returns whether all of it is stored now."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._urgent = True
            self._changed.notify_all()
            if self._thread is None:
                self._urgent = False
            while self._waiting or self._urgent or self._working or self._left():
                left = deadline - time.monotonic()
                if left <= 0 or self._thread is None or not self._thread.is_alive():
                    return False
                self._changed.wait(left)
            return True

    def close(self, timeout_s: float) -> None:
        """Send what waits, within a bound; what is left waits on disk for the next process."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            thread = self._thread
            if self._pid != os.getpid() or thread is None:
                return
            self._closing = self._urgent = True
            self._changed.notify_all()
        # A part of the time is left to put on disk what the target did not take.
        thread.join(0.7 * timeout_s)
        if thread.is_alive():
            self._take_over(deadline)
        self._begin()

    def forked(self) -> None:
        """Begin anew in a child process: what waits is its parent's."""
        # Kept alive: their finalizers would say goodbye on connections that are the parent's.
        self._inherited.append((self._opened, self._thread))
        if self._opened is not None:
            self._opened.delivery.forget()
        self._begin()

    def _run(self) -> None:
        from ratchet.observe.live import suppress_tracing

        suppress_tracing()
        pause_s = 0.0
        due_s: float | None = None
        while True:
            with self._changed:
                if pause_s:
                    self._changed.wait_for(lambda: self._urgent or self._closing, pause_s)
                elif due_s != 0.0:
                    self._changed.wait_for(self._has_work, due_s)
                urgent, closing, self._urgent = self._urgent, self._closing, False
                items = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                self._in_flight, self._working = items, True
            left = self._work(items, urgent)
            due_s = None if self._opened is None else self._opened.delivery.due_s
            pause_s = min(max(2 * pause_s, _PAUSE_S[0]), _PAUSE_S[1]) if left else 0.0
            with self._changed:
                if self._taken_over:
                    return
                self._waiting.extendleft(reversed(left))
                self._in_flight, self._working = (), False
                self._changed.notify_all()
                done = closing and (left or not self._waiting)
            if done:
                self._end()
                return

    def _has_work(self) -> bool:
        return bool(self._waiting) or self._urgent or self._closing

    def _left(self) -> int:
        return 0 if self._opened is None else self._opened.delivery.waiting

    def _work(self, items: Sequence[Feedback], urgent: bool) -> Sequence[Feedback]:
        """Send, or have it wait; return what could be neither sent nor kept."""
        try:
            opened = self._current()
        except TransportUnavailable as error:
            _log.debug("Feedback waits: %s", error)
            return items
        except Exception as error:  # whatever it is, it is no reason to stop
            _log.warning("Feedback could not be sent: %s: %s", type(error).__name__, error)
            return ()
        try:
            delivery = opened.delivery
            if urgent:
                delivery.hasten()
            delivery.retry()
            while urgent and delivery.due_s == 0.0:
                delivery.retry()
            delivery.deliver(_redacted(items, opened))
        except Exception as error:
            _log.warning("Feedback could not be sent: %s: %s", type(error).__name__, error)
        return ()

    def _current(self) -> FeedbackPipeline:
        setting = self._setting()
        if self._opened is None or setting != self._opened_with:
            opened, former = self._open(), self._opened
            if former is not None:
                # What waits on disk is for where it was meant for; the rest goes where all goes.
                opened.delivery.keep(former.delivery.withdraw())
                former.delivery.close()
            self._opened, self._opened_with = opened, setting
        return self._opened

    def _end(self) -> None:
        """In the thread: leave what waits to the next process."""
        _report_unsent(self._left(), self._opened, len(self._waiting))
        if self._opened is not None:
            self._opened.delivery.close()

    def _take_over(self, deadline: float) -> None:
        """Put on disk what the thread, which hangs, could not send."""
        with self._changed:
            self._taken_over = True
            items = [*self._in_flight, *self._waiting]
            self._waiting.clear()
        lost = len(items)
        with contextlib.suppress(Exception):
            if self._opened is None and time.monotonic() < deadline:
                self._opened = self._open()
            if self._opened is not None:
                self._opened.delivery.keep(_redacted(items, self._opened))
                lost = 0
        _report_unsent(self._left(), self._opened, lost)


def _redacted(items: Sequence[Feedback], opened: FeedbackPipeline) -> list[Feedback]:
    made = []
    for item in items:
        try:
            made.append(opened.redact(item))
        except Exception as error:  # a redaction of the user's own: nothing is let through unseen
            _log.warning("Feedback %s was not sent: %s: %s", item.id, type(error).__name__, error)
    return made


def _report_unsent(left: int, opened: FeedbackPipeline | None, lost: int) -> None:
    """Say what was not sent, at the end."""
    if left and opened is not None and not opened.delivery.keeps_on_disk:
        lost += left
        left = 0
    if left:
        _log.info("%d statements of feedback wait on disk for the next process.", left)
    if lost:
        _log.warning("%d statements of feedback could not be sent and are lost.", lost)


def _keep_trace(item: Feedback) -> None:
    """Have sampling keep what somebody was not content with."""
    from ratchet.observe import collector

    keep = getattr(collector._live, "keep", None)
    if keep is not None:
        keep(item.trace_id, item.conversation_id)
