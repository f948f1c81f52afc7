"""The activity log: what was buffered is stored, however the server ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ratchet.server.activity_log import ActivityLog
from ratchet.store import Store


def test_rows_that_are_being_written_when_it_closes_are_stored(store: Store) -> None:
    async def main() -> None:
        under_way, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(work: Callable[..., Any], *arguments: Any) -> Any:
            under_way.set()
            await go_on.wait()
            return work(*arguments)

        log = ActivityLog(store, slowly)
        await log.start()
        log.audit(None, {"method": "POST", "path": "/v1/keys"}, "create_key", 201)
        await under_way.wait()
        log.audit(None, {"method": "GET", "path": "/v1/keys"}, "list_keys", 401)
        closing = asyncio.create_task(log.close())
        await asyncio.sleep(0)  # the close has begun
        go_on.set()
        await closing

    asyncio.run(main())

    rows, _ = store.audit.list()
    assert sorted(row.action for row in rows) == ["GET list_keys", "POST create_key"]


def test_event_streams_that_end_while_they_wait_hold_up_nothing(store: Store) -> None:
    async def main() -> None:
        async def directly(work: Callable[..., Any], *arguments: Any) -> Any:
            return work(*arguments)

        log = ActivityLog(store, directly)
        for after in range(10):
            waiting = [asyncio.create_task(log.wait(0.001)) for _ in range(20)]
            await asyncio.wait(waiting, timeout=0.001)  # they are at their time-outs
            for _ in range(after):
                await asyncio.sleep(0)  # cancelled at another step of it
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting, timeout=5)
            log.event("rollouts.created", {"created": after})
            async with asyncio.timeout(5):
                await log.close()

    asyncio.run(main())

    assert len(store.events.after(0)) == 10
