"""Together: callers share a transaction. What gathers while one is under way goes into the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Runs work for several callers at once, one batch after another.

    Args:
        work: Takes items, in the order they came, and returns a result for each. When it raises,
            all callers of the batch hear of it.
        size: How much an item counts.
        max_size: How much a batch holds; one item may be more.
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
        """Whether nothing waits and nothing runs."""
        return self._running is None

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """Put an item in line. Whoever no longer waits for the future does not stop the work."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return future

    async def drain(self) -> None:
        """Wait until nothing is in line."""
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
                    future.exception()  # heard, should nobody wait any more
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
