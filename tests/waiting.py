"""Waiting, a bounded while, for what another process or thread does."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable

import psutil

WAIT_S = 30.0
"""Seconds after which a test gives up: many times what a busy machine takes."""


def until(condition: Callable[[], bool], what: str = "it did not come true") -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: It did not hold within WAIT_S.
    """
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        select.select([], [], [], 0.01)


async def until_async(condition: Callable[[], bool]) -> None:
    """The same without holding up the loop.

    Raises:
        TimeoutError: It did not hold within WAIT_S.
    """
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.005)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
