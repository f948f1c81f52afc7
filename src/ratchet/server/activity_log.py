"""Activity log: buffers audit rows and events and writes them in batches."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from ratchet.server.access import Caller
from ratchet.store import Store
from ratchet.store.audit import AuditRow
from ratchet.types import RatchetError

log = logging.getLogger("ratchet.server")

FLUSH_INTERVAL_S = 0.2
"""Longest time an entry stays buffered, in seconds."""

REFUSED_S = 60.0

MAX_PENDING = 10_000
"""Maximum number of buffered entries of each kind while the store is unavailable; the oldest are
dropped first."""


class ActivityLog:
    """Writes audit rows and events in the background. Failed writes are logged and retried."""

    def __init__(self, store: Store, in_thread: Callable[..., Awaitable[Any]]) -> None:
        self._store = store
        self._in_thread = in_thread
        self._events: deque[tuple[str, Any]] = deque(maxlen=MAX_PENDING)
        self._rows: deque[AuditRow] = deque(maxlen=MAX_PENDING)
        self._refused: dict[tuple[str, str, str, int], float] = {}
        """When each kind of refusal may be recorded again."""
        self._more = asyncio.Event()
        self._closing = asyncio.Event()
        self._written = asyncio.Event()
        """Set at the next write, and then replaced: no waiter, however it ends, holds a lock."""
        self._task: asyncio.Task[None] | None = None

    def event(self, kind: str, body: Any) -> None:
        """Publish an event to subscribers."""
        self._events.append((kind, body))
        self._more.set()

    def audit(self, caller: Caller | None, scope: Any, action: str, status: int) -> None:
        """Record a call, allowed or refused.

        A reason that the call gives is recorded after its path. Identical refusals of one caller
        are recorded once a minute, so that repeated attempts cannot fill the disk.
        """
        client = scope.get("client")
        now = time.time()
        key_id = caller.key_id if caller else ""
        address = str(client[0]) if client else ""
        action = f"{scope['method']} {action}"
        if status >= 400:
            what = (key_id, address, action, status)
            if now < self._refused.get(what, 0.0):
                return
            if len(self._refused) >= MAX_PENDING:
                self._refused.clear()
            self._refused[what] = now + REFUSED_S
        target, reason = scope["path"][:500], scope.get("ratchet.reason", "")
        if reason and status < 400:
            target = f"{target}: {reason}"
        self._rows.append(
            AuditRow(
                at=now,
                key_id=key_id,
                address=address,
                action=action[:200],
                target=target,
                status=status,
            )
        )
        self._more.set()

    async def wait(self, timeout_s: float) -> None:
        """Wait until events are written, or until the timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._written.wait()

    async def start(self) -> None:
        """Start writing in the background."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop and write what is buffered."""
        self._closing.set()
        self._more.set()
        if self._task is not None:
            await self._task  # not cancelled: a write under way would lose its rows
        await self._write()

    async def _run(self) -> None:
        while not self._closing.is_set():
            await self._more.wait()
            self._more.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_INTERVAL_S):
                    await self._closing.wait()
            await self._write()

    async def _write(self) -> None:
        events, rows = list(self._events), list(self._rows)
        self._events.clear()
        self._rows.clear()
        if not events and not rows:
            return
        try:
            if rows:
                await self._in_thread(self._store.audit.add, rows)
            rows = []
            if events:
                await self._in_thread(self._store.events.add, events, time.time())
        except RatchetError as error:
            log.warning(
                "Writing the audit log and events failed, and will be tried again: %s", error
            )
            self._rows.extendleft(reversed(rows))
            self._events.extendleft(reversed(events))
            self._more.set()
            return
        self._written.set()
        self._written = asyncio.Event()
