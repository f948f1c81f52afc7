"""Servers that end at once: uvicorn looks ten times a second whether it should, and then waits."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn.server

TICK_S = 0.005


class _Impatient:
    """What uvicorn sees as asyncio."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        """Sleep, at most for a tick."""
        await asyncio.sleep(min(seconds, TICK_S))


def end_servers_at_once() -> None:
    """Let the servers of this process end within milliseconds of being told to."""
    vars(uvicorn.server)["asyncio"] = _Impatient()
