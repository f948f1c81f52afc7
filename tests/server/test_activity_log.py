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


def test_it_closes_where_it_was_never_started(store: Store) -> None:
    async def main() -> None:
        async def directly(work: Callable[..., Any], *arguments: Any) -> Any:
            return work(*arguments)

        log = ActivityLog(store, directly)
        log.audit(None, {"method": "POST", "path": "/v1/keys"}, "create_key", 201)
        await log.close()

    asyncio.run(main())

    assert [row.action for row in store.audit.list()[0]] == ["POST create_key"]
