"""A gateway on a real socket, around a real store, in front of an upstream of the tests' own."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, TypeVar

import pytest
import uvicorn

from ratchet.server.access import Caller
from ratchet.server.gateway import Gateway, Upstream
from ratchet.server.span_writer import SpanWriter
from ratchet.store import Store
from ratchet.types import Rollout, Span
from tests.server.gateway.upstreams import StubUpstream

Result = TypeVar("Result")


class Site:
    """A gateway that answers on loopback until `close`.

    Args:
        store: Where it records.
        upstreams: As the gateway takes them.
        caller: Who all callers are.
        options: More for the gateway.
    """

    def __init__(
        self,
        store: Store,
        upstreams: tuple[Upstream, ...],
        *,
        caller: Caller | None = None,
        writer: Any = None,
        **options: Any,
    ) -> None:
        self.store = store
        self.caller = caller
        self.writer = writer or SpanWriter(store)
        self.gateway = Gateway(upstreams, self.writer, **{"environ": {}, **options})
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._up = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._up.wait(60)

    def url(self, scope: str, provider: str = "openai") -> str:
        """Base URL of a scope; that of OpenAI's clients holds the version."""
        version = "/v1" if provider == "openai" else ""
        return f"http://127.0.0.1:{self.port}/gateway/{scope}/{provider}{version}"

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Await something in the server's event loop."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(15)

    def spans(self, count: int, rollout_id: str | None = None) -> list[Span]:
        """The spans that are stored, once there are so many."""
        deadline = time.monotonic() + 10
        while True:
            self.run(self.writer.flush())
            found = self.store.spans.of(rollout_id)
            if len(found) >= count or time.monotonic() > deadline:
                assert len(found) == count, f"{len(found)} spans are stored, {count} are expected"
                return found
            time.sleep(0.005)

    def span(self, rollout_id: str | None = None) -> Span:
        """The one span that is stored."""
        return self.spans(1, rollout_id)[0]

    def close(self) -> None:
        """End as a server does."""
        if self._thread.is_alive():
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(15)
        assert not self._thread.is_alive()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            interface="asgi3",
            lifespan="on",
            timeout_graceful_shutdown=5,
        )
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        # Not `server.serve`, which takes a fifth of a second to end.
        self._end = asyncio.Event()
        await server.startup(sockets=[self._socket])
        await self._end.wait()
        for listening in server.servers:
            listening.close()
        for connection in list(server.server_state.connections):
            connection.shutdown()
        await server.lifespan.shutdown()

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            if self.caller is not None:
                scope["ratchet.caller"] = self.caller
            await self.gateway(scope, receive, send)
            return
        await receive()
        await self.writer.start()
        await self.gateway.start()
        await send({"type": "lifespan.startup.complete"})
        self._up.set()
        await receive()
        await self.gateway.close()
        await self.writer.close()
        await send({"type": "lifespan.shutdown.complete"})


@pytest.fixture
def upstream() -> Iterator[StubUpstream]:
    """An upstream that does as it is told."""
    stub = StubUpstream()
    yield stub
    stub.close()


@pytest.fixture
def open_site(disk: Store) -> Iterator[Callable[..., Site]]:
    """Opens gateways; they are closed at the end."""
    opened: list[Site] = []

    def open_one(*upstreams: Upstream, **options: Any) -> Site:
        site = Site(disk, upstreams, **options)
        opened.append(site)
        return site

    yield open_one
    for site in opened:
        site.close()


@pytest.fixture
def site(open_site: Callable[..., Site], upstream: StubUpstream) -> Site:
    """A gateway whose two upstreams are the stub, in either dialect."""
    return open_site(*both(upstream))


def both(stub: StubUpstream, **options: Any) -> tuple[Upstream, Upstream]:
    """The stub as an upstream of either dialect."""
    return (
        Upstream(name="one", dialect="openai", base_url=stub.url, **options),
        Upstream(name="two", dialect="anthropic", base_url=stub.url, **options),
    )


@pytest.fixture
def attempt(disk: Store) -> tuple[str, int]:
    """Rollout id and fence of an attempt that runs."""
    now = time.time()
    rollout = Rollout(id="r1", queue="default", candidate_id="", task_id="t", input="?")
    disk.rollouts.create([rollout], now)
    claim = disk.rollouts.claim("default", "tests/1/1", 1, 60.0, now)[0]
    return claim.rollout.id, claim.fence


def every(stub: StubUpstream, **options: Any) -> tuple[Upstream, ...]:
    """The stub as an upstream of every dialect."""
    ollama = Upstream(name="three", dialect="ollama", base_url=stub.url, **options)
    gemini = Upstream(name="four", dialect="gemini", base_url=stub.url, **options)
    return (*both(stub, **options), ollama, gemini)


def messages(span: Span, attribute: str) -> Any:
    """An attribute that is JSON text, decoded."""
    return json.loads(span.attributes[attribute])


def raw_call(port: int, request: bytes) -> socket.socket:
    """A connection on which a request was sent."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=15)
    connection.sendall(request)
    return connection


def http_request(
    target: str, body: bytes, headers: Mapping[str, str] | None = None, method: str = "POST"
) -> bytes:
    """A request as bytes."""
    said = {"host": "gateway", "content-length": str(len(body)), **(headers or {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body


def read_until(connection: socket.socket, part: bytes) -> bytes:
    """What comes until a part of it is there."""
    received = b""
    while part not in received:
        received += connection.recv(65536)
    return received


def read_all(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    received = b""
    while True:
        try:
            more = connection.recv(65536)
        except ConnectionResetError:
            return received
        if not more:
            return received
        received += more


def exchange(
    site: Site, target: str, body: bytes = b"{}", headers: Mapping[str, str] | None = None
) -> tuple[bytes, bytes]:
    """Head and body of an answer, after which the connection is closed."""
    request = http_request(target, body, {"connection": "close", **(headers or {})})
    with raw_call(site.port, request) as connection:
        head, _, content = read_all(connection).partition(b"\r\n\r\n")
    return head, content
