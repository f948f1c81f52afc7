"""A relay on loopback: streams requests along its routes, and keeps requests and answers.

A path `/to/https/api.groq.com/openai/v1/chat/completions` names its upstream by itself, so any
provider's client works with a base URL of this form. A path `/openai/…` goes below the base that
the route `openai` leads to at that moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

if TYPE_CHECKING:
    from aiohttp import ClientSession, web

CALL_HEADER = "x-ratchet-call"
"""Header with the caller's own name for a call; the relay does not pass it on."""

DIRECT = "/to/"

KEPT_BYTES = 16_777_216
"""How many bytes of a body are kept; all are passed on."""

CONNECT_TIMEOUT_S = 20.0
READ_TIMEOUT_S = 600.0
"""Seconds allowed for connecting to an upstream, and for its next bytes."""

START_TIMEOUT_S = 20.0
CLOSE_TIMEOUT_S = 1.0

_HOP_BY_HOP = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te"),
        *("trailer", "transfer-encoding", "upgrade", "host", "content-length"),
        *("accept-encoding", "expect", CALL_HEADER),
    }
)


class RelayedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it arrived."""

    number: int
    """In the order of arrival, from 0."""
    call: str
    """The caller's own name for it; empty if it gave none."""
    method: str
    url: str
    """URL that it is sent to; empty if no route matches."""
    path: str
    """The path on the upstream's host, with the query."""
    headers: Mapping[str, str]
    body: bytes
    added: Mapping[str, str] = {}
    """Headers to add to those that arrived; they replace headers of the same name."""
    proxy: str = ""
    """URL of the proxy to use; empty for the environment's, if any."""


class RelayAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that the relay gives itself."""

    pieces: Iterable[bytes]
    status: int = 200
    content_type: str = "application/json"


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A request with its answer."""

    request: RelayedRequest
    status: int
    """0 if no answer came."""
    content_type: str
    body: bytes
    seconds: float
    error: str
    """Why the upstream gave no complete answer; empty if it did."""
    passed_on: bool = True
    """Whether an upstream was asked; False if the relay itself answered."""


class ModelRelay:
    """The relay, in a thread of its own; a context manager.

    Args:
        routes: Base URL by the first part of a path; `lead` changes them.
        answering: Answers some requests instead of their upstream, or leads them elsewhere; None
            passes one on.
        ended: Called with each exchange, in the relay's thread.
        trust_env: Whether upstreams are reached through the proxies of the environment.
    """

    def __init__(
        self,
        routes: Mapping[str, str] = {},
        *,
        answering: Callable[[RelayedRequest], RelayAnswer | RelayedRequest | None] | None = None,
        ended: Callable[[Exchange], None] | None = None,
        trust_env: bool = True,
    ) -> None:
        self._routes = dict(routes)
        self._answering = answering
        self._told = ended
        self._trust_env = trust_env
        self._numbers = itertools.count()
        self._socket = socket.socket()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._work, name="model relay", daemon=True)

    @property
    def url(self) -> str:
        """The relay's own URL, without a path."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def lead(self, route: str, base_url: str) -> None:
        """Point a route at another base URL, or at none, from the next request on."""
        if base_url:
            self._routes[route] = base_url
        else:
            self._routes.pop(route, None)

    def address_of(self, url: str) -> str:
        """The relay's URL for an upstream's."""
        return self.url + direct_path(url)

    def __enter__(self) -> ModelRelay:
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(128)
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S):
            raise RuntimeError("The relay for model calls did not start.")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(START_TIMEOUT_S)

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web

        timeout = ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=READ_TIMEOUT_S
        )
        async with ClientSession(
            connector=TCPConnector(limit=0, ssl=_trust()),
            timeout=timeout,
            trust_env=self._trust_env,
            auto_decompress=False,
            cookie_jar=DummyCookieJar(),
        ) as session:

            async def handle(request: web.BaseRequest) -> web.StreamResponse:
                return await self._relay(session, request)

            runner = web.ServerRunner(web.Server(handle), shutdown_timeout=CLOSE_TIMEOUT_S)
            await runner.setup()
            await web.SockSite(runner, self._socket).start()
            self._ready.set()
            await self._stopping.wait()
            await runner.cleanup()

    async def _relay(self, session: ClientSession, request: web.BaseRequest) -> web.StreamResponse:
        started = time.perf_counter()
        arrived = self._arrived(request, await request.content.read())
        own = self._answering(arrived) if self._answering else None
        if isinstance(own, RelayedRequest):
            arrived, own = own, None
        sent = _Sent(request)
        error = ""
        try:
            if own is not None:
                await sent.begin(own.status, {"content-type": own.content_type})
                for piece in own.pieces:
                    await sent.add(piece)
            elif not arrived.url:
                await sent.refuse(404, f"The relay has no route for {request.path!r}.")
            else:
                await self._forward(session, arrived, sent)
        except ConnectionResetError:
            error = "The program closed the connection."
        except Exception as failure:  # an upstream may send anything
            error = _failure(arrived, failure)
            if sent.response is None:
                with contextlib.suppress(
                    ConnectionResetError
                ):  # the program may have ended meanwhile
                    await sent.refuse(502, error)
            elif request.transport is not None:
                request.transport.abort()  # a cut answer must not look whole
        seconds = time.perf_counter() - started
        if self._told is not None:
            exchange = sent.exchange(arrived, seconds, error)
            self._told(msgspec.structs.replace(exchange, passed_on=own is None))
        assert sent.response is not None or error
        return sent.response or sent.nothing()

    def _arrived(self, request: web.BaseRequest, body: bytes) -> RelayedRequest:
        url, path = self._destination(request.raw_path)
        return RelayedRequest(
            number=next(self._numbers),
            call=request.headers.get(CALL_HEADER, ""),
            method=request.method,
            url=url,
            path=path,
            headers=dict(request.headers),
            body=body,
        )

    def _destination(self, path: str) -> tuple[str, str]:
        """Where a path leads, and its part below the upstream's host."""
        if path.startswith(DIRECT):
            scheme, _, location = path.removeprefix(DIRECT).partition("/")
            host, slash, below = location.partition("/")
            url = f"{scheme}://{host}{slash}{below}" if scheme in ("http", "https") else ""
        else:
            route, slash, below = path.lstrip("/").partition("/")
            base = self._routes.get(route, "").rstrip("/")
            url = f"{base}{slash}{below}" if base else ""
        return url, _below_host(url) if url else path

    async def _forward(self, session: ClientSession, arrived: RelayedRequest, sent: _Sent) -> None:
        from multidict import CIMultiDict
        from yarl import URL

        headers = CIMultiDict(
            (name, value)
            for name, value in sent.request.headers.items()
            if name.lower() not in _HOP_BY_HOP
        )
        headers["Accept-Encoding"] = "identity"
        for name, value in arrived.added.items():
            headers[name] = value
        async with session.request(
            arrived.method,
            URL(arrived.url, encoded=True),
            headers=headers,
            data=arrived.body or None,
            allow_redirects=False,
            proxy=arrived.proxy or None,
        ) as response:
            await sent.begin(
                response.status,
                [
                    (name, value)
                    for name, value in response.headers.items()
                    if name.lower() not in _HOP_BY_HOP
                ],
            )
            async for piece in _pieces(response.content):
                await sent.add(piece)


def _trust() -> ssl.SSLContext:
    """The certificate authorities of this machine, and those that the providers' libraries would
    trust."""
    context = ssl.create_default_context()
    files = [os.environ.get(name) for name in ("REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")]
    with contextlib.suppress(ImportError):
        import certifi

        files.append(certifi.where())
    for file in filter(None, files):
        with contextlib.suppress(OSError):
            context.load_verify_locations(file)
    return context


async def _pieces(content: object) -> AsyncIterator[bytes]:
    while piece := await content.readany():  # type: ignore[attr-defined]
        yield piece


class _Sent:
    """The answer to a request, as it is sent and kept."""

    def __init__(self, request: web.BaseRequest) -> None:
        self.request = request
        self.response: web.StreamResponse | None = None
        self._kept: list[bytes] = []
        self._left = KEPT_BYTES

    async def begin(
        self, status: int, headers: Mapping[str, str] | Iterable[tuple[str, str]]
    ) -> None:
        from aiohttp import web
        from multidict import CIMultiDict

        response = web.StreamResponse(status=status, headers=CIMultiDict(headers))
        await response.prepare(self.request)
        self.response = response

    async def add(self, piece: bytes) -> None:
        assert self.response is not None
        if self._left > 0:
            self._kept.append(piece[: self._left])
            self._left -= len(piece)
        await self.response.write(piece)

    async def refuse(self, status: int, why: str) -> None:
        await self.begin(status, {"content-type": "application/json"})
        await self.add(msgspec.json.encode({"error": {"message": why, "type": "relay"}}))

    def nothing(self) -> web.StreamResponse:
        from aiohttp import web

        return web.Response(status=502)

    def exchange(self, arrived: RelayedRequest, seconds: float, error: str) -> Exchange:
        response = self.response
        return Exchange(
            request=arrived,
            status=0 if response is None else response.status,
            content_type="" if response is None else response.headers.get("content-type", ""),
            body=b"".join(self._kept),
            seconds=seconds,
            error=error,
        )


def direct_path(url: str) -> str:
    """The relay's path for an upstream's URL."""
    place = urlsplit(url)
    host = place.netloc.rpartition("@")[2]
    query = f"?{place.query}" if place.query else ""
    return f"{DIRECT}{place.scheme}/{host}{place.path}{query}"


def _below_host(url: str) -> str:
    place = urlsplit(url)
    return (place.path or "/") + (f"?{place.query}" if place.query else "")


def _failure(arrived: RelayedRequest, failure: Exception) -> str:
    host = urlsplit(arrived.url).netloc
    reason = str(failure) or type(failure).__name__
    return f"{host} did not answer: {reason}"
