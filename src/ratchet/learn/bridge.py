"""Runs a library's synchronous engine in a thread, with callbacks into the event loop.

Whatever ends the work in the loop (an exhausted budget, an unavailable coach, a kill) ends the
engine too: it is raised in the engine's thread as `EngineStopped`, which no `except Exception` of a
library catches.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class EngineStopped(BaseException):
    """Stops the engine."""


class Bridge:
    """Connects an engine's thread with the event loop. Create it in the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._cause: BaseException | None = None

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for it. Call from the engine's thread.

        Raises:
            EngineStopped: The coroutine failed, or earlier work did.
        """
        if self._cause is not None:
            work.close()
            raise EngineStopped
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except BaseException as error:
            self._cause = self._cause or error
            raise EngineStopped from error

    def do(self, work: Callable[[], T]) -> T:
        """Like `call`, for a plain function."""

        async def made() -> T:
            return work()

        return self.call(made())

    async def run(self, engine: Callable[[], T]) -> T | None:
        """Run an engine to completion.

        Returns:
            Its return value; None if it was stopped by `cause`.

        Raises:
            Exception: An error of the engine itself, not caused by its callbacks.
        """
        ended: asyncio.Future[T | None] = self._loop.create_future()

        def resolve(result: T | None, error: BaseException | None) -> None:
            if ended.done():
                return
            if error is None:
                ended.set_result(result)
            else:
                ended.set_exception(error)

        def work() -> None:
            result: T | None = None
            error: BaseException | None = None
            try:
                result = engine()
            except BaseException as raised:
                error = None if self._cause is not None else raised
            try:
                self._loop.call_soon_threadsafe(resolve, result, error)
            except RuntimeError:
                pass  # the loop is closed: nothing awaits the result

        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(work,), name="engine", daemon=True)
        thread.start()
        try:
            return await ended
        except asyncio.CancelledError as error:
            self._cause = self._cause or error
            raise

    @property
    def cause(self) -> BaseException | None:
        """What stopped the engine; None if nothing did."""
        return self._cause
