"""Sandboxes that tests share, and what this machine can make of them."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any, TypeVar

import pytest

from ratchet.sandbox import SandboxPool
from ratchet.sandbox.levels import why_no_bubblewrap, why_no_landlock
from tests.sandbox.suite import Surroundings, healthy

T = TypeVar("T")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


CONTAINING = [
    pytest.param(
        level,
        marks=pytest.mark.skipif(why != "", reason=f"no {level} on this machine: {why}"),
    )
    for level, why in (("bubblewrap", why_no_bubblewrap()), ("landlock", why_no_landlock()))
]
"""Levels that contain, as parameters of a test."""

LEVELS = [*CONTAINING, "none"]


@pytest.fixture(params=CONTAINING)
def containing(request: pytest.FixtureRequest) -> str:
    """A level that contains."""
    level: str = request.param
    return level


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    """Any level."""
    level: str = request.param
    return level


class Shared:
    """Sandboxes in their surroundings, on an event loop of their own, kept from test to test."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._around = ExitStack()
        self._pools = AsyncExitStack()
        self._made: dict[tuple[str, int], tuple[Surroundings, SandboxPool, dict[str, Any]]] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def get(self, level: str, landlock: int) -> tuple[Surroundings, SandboxPool, dict[str, Any]]:
        """Surroundings, a pool in them, and what a harmless evaluation finds there."""
        if (level, landlock) not in self._made:
            around = Surroundings(self._around)
            warm = self.run(self._pools.enter_async_context(around.pool(level, landlock)))
            self._made[level, landlock] = around, warm, self.run(healthy(warm))
        return self._made[level, landlock]

    def forget(self, level: str, landlock: int) -> None:
        """Make new ones next time: these have suffered."""
        self._made.pop((level, landlock), None)

    def close(self) -> None:
        """End the sandboxes and the loop."""
        self.run(self._pools.aclose())
        self._around.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="session")
def shared() -> Iterator[Shared]:
    """Sandboxes for hostile programs."""
    made = Shared()
    try:
        yield made
    finally:
        made.close()
