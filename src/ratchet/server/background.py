"""Runs a server in a thread of this process for as long as a command needs it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager

import uvloop

from ratchet.server.serve import ServeSettings, make_server
from ratchet.store import Store

STOP_TIMEOUT_S = 20.0
"""Seconds that the server may take to store what is pending."""


@asynccontextmanager
async def background_server(
    store: Store, settings: ServeSettings, *, environ: Mapping[str, str]
) -> AsyncIterator[str]:
    """Serve a store until the block is left; yields the server's URL.

    The server has an event loop of its own, so that the caller's work does not delay model calls.

    Args:
        store: Closed at the end.
        settings: Settings of the server.
        environ: Environment with the providers' keys.

    Raises:
        ConfigError: The address cannot be bound, or a key is required and there is none.
        StoreError: The server did not start.
    """
    started: Future[str] = Future()
    server = make_server(store, settings, environ=environ, on_ready=started.set_result)
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        await server.run_async()

    def work() -> None:
        try:
            uvloop.run(run())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=work, name="ratchet-server", daemon=True)
    thread.start()
    try:
        yield await asyncio.wrap_future(started)
    finally:
        for loop in loops:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(server.stop)
        await asyncio.to_thread(thread.join, STOP_TIMEOUT_S)
