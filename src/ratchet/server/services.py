"""Services: what the routes of one server share."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, Protocol, TypeVar

from ratchet.observe.redaction import Redactor
from ratchet.server.access import Gatekeeper
from ratchet.server.activity_log import ActivityLog
from ratchet.server.dispatcher import RolloutDispatcher
from ratchet.server.limits import ServerLimits
from ratchet.server.metrics import Metrics
from ratchet.server.retention import Pruner
from ratchet.server.span_writer import SpanWriter
from ratchet.store import Store

READERS = 8
"""Threads for reads; they also do rare writes."""

Result = TypeVar("Result")
Raw = Callable[[Any, Any, Any], Awaitable[None]]


class BackgroundService(Protocol):
    """Something that runs as long as the server does."""

    async def start(self) -> None:
        """Begin."""

    async def close(self) -> None:
        """End in order."""


class Services:
    """What the routes of one server share.

    Args:
        store: The store; closed with the server.
        gatekeeper: Who may come in.
        limits: How much at once.
        metrics: Counters.
        spans: Where spans go.
        redactor: Takes out of feedback and of rollouts' spans what is not to be stored.
        gateway: Answers under /gateway/.
        otlp: Answers /v1/traces.
        pruner: Deletes what is old.
        flush_attempt: Awaits that an attempt's gateway calls are stored.
    """

    def __init__(
        self,
        store: Store,
        *,
        gatekeeper: Gatekeeper,
        limits: ServerLimits,
        metrics: Metrics,
        spans: SpanWriter,
        redactor: Redactor,
        gateway: Raw,
        otlp: Raw,
        pruner: Pruner,
        flush_attempt: Callable[[str, int], Awaitable[None]],
        background: tuple[BackgroundService, ...] = (),
    ) -> None:
        self.store = store
        self.gatekeeper = gatekeeper
        self.limits = limits
        self.metrics = metrics
        self.spans = spans
        self.redactor = redactor
        self.gateway = gateway
        self.otlp = otlp
        self.flush_attempt = flush_attempt
        self.closing = asyncio.Event()
        """Set when the server begins to end: whoever waits for something gives up."""
        self.started_at = time.time()
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="ratchet-store")
        self.activity_log = ActivityLog(store, self.in_thread)
        self.dispatcher = RolloutDispatcher(store, self)
        # Closed in the opposite order: spans last, after those that write some.
        self._background: tuple[BackgroundService, ...] = (
            spans,
            self.activity_log,
            self.dispatcher,
            pruner,
            *background,
        )
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Start every part."""
        self._stack.push_async_callback(self.gatekeeper.close)
        for service in self._background:
            await service.start()
            self._stack.push_async_callback(service.close)

    async def close(self) -> None:
        """Let every part finish what it holds, and close the store."""
        self.closing.set()
        await self._stack.aclose()
        self._threads.shutdown(wait=True)
        self.store.close()

    async def in_thread(self, work: Callable[..., Result], *args: Any, **options: Any) -> Result:
        """Call something that blocks, such as a method of the store."""
        call = functools.partial(work, *args, **options)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)
