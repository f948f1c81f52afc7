"""Batcher: merges concurrent submissions so that they share one transaction."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Runs submitted items in batches, one batch at a time.

    Items submitted while a batch runs go into the next one.

    Args:
        work: Takes items in submission order and returns a result for each. When it raises, every
            caller of the batch receives the exception.
        size: Returns the size of an item.
        max_size: Largest total size of a batch; a single item may exceed it.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        size: Callable[[Item], int],
        max_size: int,
    ) -> None:
        self._work = work
        self._size = size
        self._max_size = max_size
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._running: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing is pending or running."""
        return self._running is None

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """Submit an item. Cancelling the returned future does not stop the work."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return future

    async def drain(self) -> None:
        """Wait until nothing is pending."""
        while self._running is not None:
            await asyncio.wait({self._running})

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._run_batch()
        finally:
            self._running = None

    async def _run_batch(self) -> None:
        batch = [self._waiting.popleft()]
        size = self._size(batch[0][0])
        while self._waiting:
            size += self._size(self._waiting[0][0])
            if size > self._max_size:
                break
            batch.append(self._waiting.popleft())
        try:
            results = await self._work([item for item, _ in batch])
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
                    future.exception()  # mark it retrieved, in case no caller awaits it
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
