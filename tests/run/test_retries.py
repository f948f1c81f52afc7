"""Retries of calls to a server that is away."""

from __future__ import annotations

import asyncio

from ratchet.run.retries import CallRetries
from ratchet.types import StoreError


def test_a_call_that_is_cancelled_as_the_server_comes_back_ends() -> None:
    async def main() -> None:
        retries = CallRetries(lambda _: None, lambda _: None)
        calls: list[int] = []

        async def away() -> None:
            calls.append(1)
            raise StoreError("It is away.")

        async def back() -> None:
            return

        waiting = asyncio.create_task(retries.call(away))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert calls
        await retries.call(back)  # which wakes it
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting}, timeout=5)
        assert waiting.cancelled()

    asyncio.run(main())
