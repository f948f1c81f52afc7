"""Reports that a run is active, and what it is waiting for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ratchet._waiting import WAITS, Waits
from ratchet.autopilot.watcher import Watcher
from ratchet.store import Store
from ratchet.types import RatchetError

BEAT_S = 10.0
"""Seconds between reports to the store, if nothing changes."""

TICK_INTERVAL_S = 0.5


class Pulse:
    """The reports on a run, check by check.

    Args:
        store: Where it is kept for `ratchet status` and the dashboard.
        run_id: The run.
        watcher: Who watches here.
        waits: The waits of this process.
    """

    def __init__(self, store: Store, run_id: str, watcher: Watcher, waits: Waits = WAITS) -> None:
        self._store = store
        self._run_id = run_id
        self._watcher = watcher
        self._waits = waits
        self._told: list[tuple[str, float]] | None = None
        self._told_at = 0.0

    def beat(self, now: float) -> None:
        """Check for long waits, and report what has changed.

        Args:
            now: Unix seconds.
        """
        long = self._waits.long()
        self._watcher.waits(long, now)
        told_waits = [(wait.what, wait.since) for wait in long]
        if told_waits == self._told and now - self._told_at < BEAT_S:
            return
        with suppress(RatchetError):  # the store may be what is waited for
            self._store.activity.put(self._run_id, long, now)
            self._told, self._told_at = told_waits, now

    def end(self) -> None:
        """Report that no process works on the run any more."""
        self._watcher.waits([], time.time())
        with suppress(RatchetError):
            self._store.activity.end(self._run_id)


@contextmanager
def pulse(store: Store, run_id: str, watcher: Watcher) -> Iterator[None]:
    """Report on a run within the context, from a thread: the event loop itself may hang."""
    teller, over = Pulse(store, run_id, watcher), threading.Event()

    def work() -> None:
        while True:
            teller.beat(time.time())
            if over.wait(TICK_INTERVAL_S):
                return

    thread = threading.Thread(target=work, name="ratchet-pulse", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        teller.end()
