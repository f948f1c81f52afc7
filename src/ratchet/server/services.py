"""Services: the components that the routes of one server share."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ratchet._asgi import AsgiApp
from ratchet.observe.redaction import Redactor
from ratchet.server.access import Gatekeeper
from ratchet.server.activity_log import ActivityLog
from ratchet.server.body import BodyBudget
from ratchet.server.dispatcher import RolloutDispatcher
from ratchet.server.limits import ServerLimits
from ratchet.server.metrics import Metrics
from ratchet.server.oidc import OidcLogin
from ratchet.server.project_commands import ProjectCommands
from ratchet.server.retention import Pruner
from ratchet.server.span_writer import SpanWriter
from ratchet.store import Store
from ratchet.types import StoreError

READERS = 8
"""Threads for reads and for rare writes."""

CLOSE_TIMEOUT_S = 30.0
"""Seconds that one component may take to stop; after that the next is stopped."""

log = logging.getLogger("ratchet.server")

Result = TypeVar("Result")


class BackgroundService(Protocol):
    """A component that runs as long as the server."""

    async def start(self) -> None:
        """Start."""

    async def close(self) -> None:
        """Stop cleanly."""


class GatewayService(BackgroundService, Protocol):
    """The part of the gateway that the services need."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request under /gateway/."""

    async def flush_attempt(self, rollout_id: str, fence: int) -> None:
        """Wait until an attempt's gateway calls are stored."""


class Services:
    """The components that the routes of one server share.

    Args:
        store: The store; closed with the server.
        gatekeeper: Authenticates requests.
        limits: Limits of requests.
        bodies: Memory that the bodies of requests share.
        metrics: Counters.
        spans: Writes spans.
        redactor: Redacts feedback and the spans of rollouts.
        gateway: Handles /gateway/, and passes spans on until it is closed.
        otlp: Handles /v1/traces.
        pruner: Deletes expired rows.
        project: Folder of the project that the server was started in, if any.
        commands: Runs what needs that project's own code.
        oidc: Logs people in at a provider, if one is configured.
    """

    def __init__(
        self,
        store: Store,
        *,
        gatekeeper: Gatekeeper,
        limits: ServerLimits,
        bodies: BodyBudget,
        metrics: Metrics,
        spans: SpanWriter,
        redactor: Redactor,
        gateway: GatewayService,
        otlp: AsgiApp,
        pruner: Pruner,
        project: Path | None = None,
        commands: ProjectCommands | None = None,
        oidc: OidcLogin | None = None,
        background: tuple[BackgroundService, ...] = (),
    ) -> None:
        self.store = store
        self.project = project
        self.commands = commands
        self.oidc = oidc
        self.store_id = store.identity()
        self.gatekeeper = gatekeeper
        self.limits = limits
        self.bodies = bodies
        self.metrics = metrics
        self.spans = spans
        self.redactor = redactor
        self.gateway = gateway
        self.otlp = otlp
        self.flush_attempt = gateway.flush_attempt
        self.closing = asyncio.Event()
        """Set when shutdown begins: waiting requests return."""
        self.started_at = time.time()
        self.kept: dict[str, Any] = {}
        """Answers that routes cache for some seconds, by route."""
        self._pinging: asyncio.Future[None] | None = None
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="ratchet-store")
        self.activity_log = ActivityLog(store, self.in_thread)
        self.dispatcher = RolloutDispatcher(store, self)
        # Closed in reverse order. Spans first, after the gateway that passes them on: they were
        # paid for, so nothing else may use up the time that the server has to stop.
        self._background: tuple[BackgroundService, ...] = (
            self.activity_log,
            self.dispatcher,
            pruner,
            *background,
            spans,
            gateway,
        )
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Start every component."""
        self._stack.push_async_callback(self.gatekeeper.close)
        for service in self._background:
            await service.start()
            self._stack.push_async_callback(_closed, service)

    async def close(self) -> None:
        """Stop every component, finishing pending work, and close the store."""
        self.closing.set()
        await self._stack.aclose()
        self._threads.shutdown(wait=True)
        self.store.close()

    async def ping(self, timeout_s: float) -> None:
        """Check that the store responds; concurrent callers share one check.

        Raises:
            StoreError: It does not, or not in time.
        """
        if self._pinging is None or self._pinging.done():
            self._pinging = asyncio.ensure_future(self.in_thread(self.store.ping))
            self._pinging.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            async with asyncio.timeout(timeout_s):
                # Not cancelled: the thread would go on, and the next check take another.
                await asyncio.shield(self._pinging)
        except TimeoutError:
            raise StoreError(f"The store did not respond within {timeout_s:g} s.") from None

    async def in_thread(self, work: Callable[..., Result], *args: Any, **options: Any) -> Result:
        """Run a blocking call, such as a method of the store, in a thread."""
        call = functools.partial(work, *args, **options)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


async def _closed(service: BackgroundService) -> None:
    """Close a component within a bounded time; one that fails or hangs does not block the
    others."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await service.close()
    except TimeoutError:
        log.error("%s did not stop within %g s.", type(service).__name__, CLOSE_TIMEOUT_S)
    except Exception:
        log.exception("%s did not stop cleanly", type(service).__name__)
