"""Keeps partitions of spans ready on Postgres, in the background."""

from __future__ import annotations

import asyncio
import logging

from ratchet.store import Store
from ratchet.types import StoreError

log = logging.getLogger("ratchet.server")

EVERY_S = 900.0
"""Seconds between two checks; the shortest period is four times as long."""


class PartitionKeeper:
    """Makes partitions of live spans before their periods begin.

    Without it spans are stored all the same, in the default partition.

    Args:
        store: The store.
        period_s: Length of a new period in seconds.
    """

    def __init__(self, store: Store, period_s: float) -> None:
        self._store = store
        self._period_s = period_s
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Make the partitions, then check again and again in the background."""
        await self._ahead()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await self._ahead()

    async def _ahead(self) -> None:
        try:
            created = await asyncio.to_thread(self._store.partitions.ahead, self._period_s)
        except StoreError as error:
            log.warning("Partitions of spans were not made, which is tried again: %s", error)
        else:
            if created:
                log.info("Made partitions of spans: %s.", ", ".join(created))
