"""A server of the tests' own: a real one, on a free port of loopback, in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import uvloop

from ratchet._http import httpx2
from ratchet.server.serve import ServeSettings, make_server
from ratchet.store import Store
from tests.impatient import end_servers_at_once

end_servers_at_once()


class RunningServer:
    """A server that answers until `stop`.

    Args:
        store_url: Its store.
        settings: How it runs; the port is always a free one.
        environ: Where the keys of upstreams are.
    """

    def __init__(
        self,
        store_url: str,
        settings: ServeSettings | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.store_url = store_url
        self.url = ""
        self.failure: BaseException | None = None
        self._ready = threading.Event()
        self._made = settings or ServeSettings(port=0)
        self._environ = environ or {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        if not self._ready.wait(30) or self.failure is not None:
            raise RuntimeError("The server did not start.") from self.failure

    @property
    def app(self) -> Any:
        """The application, to look at its services."""
        return self._server.app

    def _run(self) -> None:
        def ready(url: str) -> None:
            self.url = url
            self._ready.set()

        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            store = Store.open(self.store_url)
            self._server = make_server(store, self._made, environ=self._environ, on_ready=ready)
            await self._server.run_async()

        try:
            uvloop.run(main())
        except BaseException as error:
            self.failure = error
        finally:
            self._ready.set()

    def stop(self) -> None:
        """End it as SIGTERM would, and wait."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server did not end"

    def client(self, key: str = "", **options: Any) -> httpx2.Client:
        """A plain HTTP client for it."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=30, **options)
