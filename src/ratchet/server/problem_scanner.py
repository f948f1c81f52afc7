"""Scans new traces for problems while a server runs."""

from __future__ import annotations

import asyncio
import logging
import time

from ratchet.autopilot.problem_scan import scan
from ratchet.server.background_loop import BackgroundLoop
from ratchet.store import Store
from ratchet.types import LeaseLost, StoreError

log = logging.getLogger("ratchet")

SCAN_INTERVAL_S = 60.0
"""Seconds between scans."""

MAX_PAGE_PAUSE_S = 5.0
"""Longest pause between pages of traces, in seconds."""


class _ServerStops(Exception):
    """The server is stopping; the next scan continues here."""


class ProblemScanner(BackgroundLoop):
    """Scans new traces every minute. Servers on the same store take turns.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        super().__init__("ratchet-problems")
        self._store = store

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not await self._pause(SCAN_INTERVAL_S):
            try:
                await loop.run_in_executor(self._thread, self._look)
            except _ServerStops:
                return
            except LeaseLost:
                log.info("Another process is scanning for problems now.")
            except StoreError as error:
                log.warning("Scanning for problems failed, and will be retried: %s", error)
            except Exception:
                log.exception("Scanning for problems failed, and will be retried")

    def _look(self) -> None:
        began = time.monotonic()

        def pause(_: int) -> None:
            """Leave three quarters of the time to other work; end soon when the server stops."""
            nonlocal began
            until = time.monotonic() + min(3 * (time.monotonic() - began), MAX_PAGE_PAUSE_S)
            while time.monotonic() < until and not self._closing.is_set():
                time.sleep(0.05)
            if self._closing.is_set():
                raise _ServerStops
            began = time.monotonic()

        found = asyncio.run(scan(self._store, now=time.time(), on_page=pause))
        for problem in (*found.begun, *found.returned):
            log.info("Problem %s is %s: %s", problem.id, problem.state, problem.title)
