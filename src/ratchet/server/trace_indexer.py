"""Trace indexer: brings the index of live traces up to date, in the background."""

from __future__ import annotations

import asyncio
import logging
import time

from ratchet.llm import price
from ratchet.server.background_loop import BackgroundLoop
from ratchet.store import Store
from ratchet.store.trace_index import IndexState
from ratchet.types import StoreError

log = logging.getLogger("ratchet.server")

LOOK_INTERVAL_S = 0.5
"""Seconds between checks of an index that is complete."""

MAX_TIME_SHARE = 0.05
"""Maximum share of the time spent indexing while spans arrive: storing them comes first."""

AFTER_ERROR_S = 5.0
"""Seconds until the store is retried."""


class TraceIndexer(BackgroundLoop):
    """Indexes traces whose spans or feedback changed.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        super().__init__("ratchet-trace-index")
        self._store = store

    async def _run(self) -> None:
        last: int | None = None
        is_repriced, wait_s = False, 0.0
        while not await self._pause(wait_s):
            begun = time.monotonic()
            try:
                if not is_repriced:
                    await asyncio.to_thread(self._store.trace_index.reprice, price)
                    is_repriced = True
                state = await asyncio.to_thread(self._store.trace_index.catch_up, price)
            except StoreError as error:
                log.warning("Traces could not be indexed, and will be retried: %s", error)
                wait_s = AFTER_ERROR_S
                continue
            wait_s = pause_s(state, last, time.monotonic() - begun)
            last = state.newest_mark


def pause_s(state: IndexState, last_mark: int | None, took_s: float) -> float:
    """Seconds until the next step.

    Args:
        state: How far the index has come.
        last_mark: Newest mark after the step before; None at the first.
        took_s: Seconds that this step took.
    """
    spared_s = took_s * (1 / MAX_TIME_SHARE - 1)
    if state.complete_until is None:
        # What was indexed may change again at once: the traces under way.
        return max(LOOK_INTERVAL_S, spared_s)
    is_busy = last_mark is not None and state.newest_mark > last_mark
    return spared_s if is_busy else 0.0
