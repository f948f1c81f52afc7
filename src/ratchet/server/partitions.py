"""Keeps partitions of spans ready on Postgres, in the background."""

from __future__ import annotations

import asyncio
import logging

from ratchet.server.background_loop import BackgroundLoop
from ratchet.store import Store
from ratchet.types import StoreError

log = logging.getLogger("ratchet.server")

CHECK_INTERVAL_S = 900.0
"""Seconds between checks; the shortest period is four times as long."""


class PartitionKeeper(BackgroundLoop):
    """Makes partitions of live spans before their periods begin.

    Without it spans are stored all the same, in the default partition.

    Args:
        store: The store.
        period_s: Length of a new period in seconds.
    """

    def __init__(self, store: Store, period_s: float) -> None:
        super().__init__("ratchet-partitions")
        self._store = store
        self._period_s = period_s

    async def start(self) -> None:
        """Make the partitions, then keep checking in the background."""
        await self._ahead()
        await super().start()

    async def _run(self) -> None:
        while not await self._pause(CHECK_INTERVAL_S):
            await self._ahead()

    async def _ahead(self) -> None:
        try:
            created = await asyncio.to_thread(self._store.partitions.ahead, self._period_s)
        except StoreError as error:
            log.warning(
                "Span partitions could not be created; the server will try again: %s", error
            )
        else:
            if created:
                log.info("Created span partitions: %s.", ", ".join(created))
