"""Pool: connections to the upstreams, as many calls at once as each of them may have."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from ratchet.server.gateway.upstream import Upstream, host_of, provider_of
from ratchet.server.problems import Problem

CONNECT_S = 10.0
"""How long a connection to an upstream may take, in seconds."""

TOTAL_S = 3600.0
"""How long one call may take, however steadily it flows, in seconds."""

WAIT_S = 10.0
"""How long a call waits for another one of the same upstream to end, in seconds."""

QUEUE = 4
"""Calls that may wait for an upstream, as a multiple of those that it may have at once."""

KEEP_ALIVE_S = 4.0
"""Idle connections are closed after so many seconds: many servers, vLLM and Node's among them,
close them after five, and a request that meets such an end is lost."""

_LARGE = 262_144
"""Bytes of a body that is sent in pieces: in one, it would hold up all other calls."""

_NO_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class UpstreamEndpoint:
    """One upstream: where it is, its key, and how many calls are with it."""

    def __init__(self, upstream: Upstream, environ: Mapping[str, str]) -> None:
        self.upstream = upstream
        self.key = environ.get(upstream.key_env, "").strip() if upstream.key_env else ""
        self.proxy = proxy_of(upstream.base_url, environ)
        parts = urlsplit(upstream.base_url)
        self.attributes = {
            "gen_ai.provider.name": provider_of(upstream),
            "server.address": host_of(upstream),
            "server.port": parts.port or (443 if parts.scheme == "https" else 80),
            "ratchet.upstream": upstream.name,
        }
        """What every span of a call to it says."""
        self.sellers = (upstream.base_url, upstream.dialect)
        self.timeout = aiohttp.ClientTimeout(
            total=max(TOTAL_S, upstream.timeout_s),
            sock_connect=CONNECT_S,
            sock_read=upstream.timeout_s,
        )
        self._base = upstream.base_url.rstrip("/")
        self._urls: dict[str, URL] = {}
        self._free = asyncio.Semaphore(upstream.concurrency)
        self._waiting = 0

    def url(self, path: str, query: bytes) -> URL:
        """Where a call goes.

        Args:
            path: Below the upstream's base URL.
            query: As the client sent it.
        """
        if query:
            return URL(f"{self._base}/{path}?{query.decode('latin-1')}", encoded=True)
        found = self._urls.get(path)
        if found is None:
            found = self._urls[path] = URL(f"{self._base}/{path}", encoded=True)
        return found

    async def acquire(self) -> None:
        """Begin a call; wait a bounded time when too many are under way.

        Raises:
            Problem: 429, when none ended in time or too many wait.
        """
        if not self._free.locked():
            await self._free.acquire()
            return
        if self._waiting >= QUEUE * self.upstream.concurrency:
            raise self._busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_S):
                await self._free.acquire()
        except TimeoutError:
            raise self._busy() from None
        finally:
            self._waiting -= 1

    def release(self) -> None:
        """End a call."""
        self._free.release()

    def _busy(self) -> Problem:
        return Problem(
            429,
            f"{self.upstream.concurrency} calls to the upstream {self.upstream.name!r} are under"
            " way, which is as many as it may have.",
            hint=f"Try again, or raise concurrency under [upstreams.{self.upstream.name}].",
            headers={"retry-after": "1"},
        )


class UpstreamPool:
    """The connections to all upstreams.

    Args:
        upstreams: The upstreams.
        environ: Where the keys are.
    """

    def __init__(self, upstreams: Sequence[Upstream], environ: Mapping[str, str]) -> None:
        self.upstreams = tuple(upstreams)
        self._environ = environ
        self._endpoints: dict[str, UpstreamEndpoint] = {}
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Make the pool; no connection is opened yet."""
        self._endpoints = {
            each.name: UpstreamEndpoint(each, self._environ) for each in self.upstreams
        }
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_NO_AUTOMATIC,
        )

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def endpoint(self, upstream: Upstream) -> UpstreamEndpoint:
        """The endpoint of an upstream."""
        return self._endpoints[upstream.name]

    async def send(
        self,
        endpoint: UpstreamEndpoint,
        method: str,
        url: URL,
        headers: CIMultiDict[str],
        body: bytes | None,
    ) -> aiohttp.ClientResponse:
        """Send a request; return when the head of its answer is there.

        Raises:
            aiohttp.ClientError: There is no answer.
            TimeoutError: It did not come in time.
        """
        assert self._session is not None
        data = io.BytesIO(body) if body is not None and len(body) > _LARGE else body
        return await self._session.request(
            method,
            url,
            data=data,
            headers=headers,
            proxy=endpoint.proxy,
            timeout=endpoint.timeout,
            allow_redirects=False,
        )


def proxy_of(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy that the usual variables name for an address: HTTPS_PROXY, NO_PROXY and so on."""

    def variable(name: str) -> str:
        return environ.get(name.lower()) or environ.get(name.upper()) or ""

    parts = urlsplit(url)
    proxy = variable(f"{parts.scheme}_proxy") or variable("all_proxy")
    if not proxy:
        return None
    host = parts.hostname or ""
    for one in variable("no_proxy").split(","):
        direct = one.strip().lstrip(".").lower()
        if direct and (direct == "*" or host == direct or host.endswith(f".{direct}")):
            return None
    return proxy if "://" in proxy else f"http://{proxy}"
