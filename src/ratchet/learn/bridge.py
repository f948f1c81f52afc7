"""A library's synchronous engine in a thread of its own, which calls back into the loop.

Whatever ends the work in the loop (the budget, a coach that is gone, a kill) ends the engine, too:
it is raised there as a `EngineStopped`, which no `except Exception` of a library catches.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class EngineStopped(BaseException):
    """The engine is to end."""


class Bridge:
    """Between an engine's thread and the loop. Made in the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._cause: BaseException | None = None

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the loop do something, and wait for it. To be called from the engine's thread.

        Raises:
            Halt: It failed, or something did before.
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
        """The same with a plain function."""

        async def made() -> T:
            return work()

        return self.call(made())

    async def run(self, engine: Callable[[], T]) -> T | None:
        """Run an engine to its end.

        Returns:
            What it returned; None when it was halted by what is in `cause`.

        Raises:
            Exception: Its own, which were not caused by what it called.
        """
        ended: asyncio.Future[T | None] = self._loop.create_future()

        def tell(result: T | None, error: BaseException | None) -> None:
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
                self._loop.call_soon_threadsafe(tell, result, error)
            except RuntimeError:
                pass  # the loop is closed: nobody waits

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
        """What halted the engine; None when nothing did."""
        return self._cause
