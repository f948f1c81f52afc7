"""Work that a server repeats beside its requests."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor

CLOSE_TIMEOUT_S = 2.0
"""Seconds that a step has to end when the server stops; the next server continues there."""


class BackgroundLoop(ABC):
    """Runs `_run` in the background until it is closed.

    Args:
        thread_name: Name of the thread that steps may run in, so that they hold up no request.
    """

    def __init__(self, thread_name: str) -> None:
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=thread_name)

    async def start(self) -> None:
        """Start."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop; a running step may finish within a bounded time."""
        self._closing.set()
        if self._task is not None:
            _, running = await asyncio.wait({self._task}, timeout=CLOSE_TIMEOUT_S)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)  # it may have work to undo
        self._thread.shutdown(wait=False, cancel_futures=True)

    @abstractmethod
    async def _run(self) -> None:
        """The work; it ends once `_pause` returns that the server closed."""

    async def _pause(self, seconds: float) -> bool:
        """Sleep; return whether the server closed in the meantime."""
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return False
        return True
