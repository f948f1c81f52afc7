"""Upstream pool: connections to the upstreams, with a concurrency limit for each."""

from __future__ import annotations

import asyncio
import io
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from ratchet.observe.model_apis import DialectName
from ratchet.run.model_hosts import is_of, reached_at
from ratchet.server.body import Content
from ratchet.server.gateway.upstream import BEARER_KEY, Upstream, host_of, provider_of
from ratchet.server.http_problems import HttpProblem
from ratchet.types.wording import counted

CONNECT_TIMEOUT_S = 10.0
"""Timeout for connecting to an upstream, in seconds."""

TOTAL_TIMEOUT_S = 3600.0
"""Timeout of a whole call, in seconds."""

SLOT_TIMEOUT_S = 10.0
"""Seconds that a call waits for a free slot of its upstream."""

WAITING_RATIO = 4
"""Maximum number of calls waiting for an upstream, as a multiple of its concurrency."""

KEEP_ALIVE_S = 4.0
"""Lifetime of idle connections, in seconds. Many servers, including vLLM and Node's, close them
after five; a request sent at that moment is lost.
"""

ADDRESSED = 256
"""Maximum number of base URLs at model hosts that are kept."""

_KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}
"""Variables that hold the agent's keys without the gateway, by dialect."""

_KEY_HEADERS = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}
"""Headers of keys that are not bearer tokens, by dialect."""

_LARGE = 262_144
"""Bodies of this many bytes or more are sent in pieces, so as not to block other calls."""

_NO_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class UpstreamEndpoint:
    """An upstream with its URL, key and concurrency limit.

    Args:
        upstream: The upstream.
        environ: Environment with the keys.
        reached_at: Base URL that replaces the upstream's own.
    """

    def __init__(
        self, upstream: Upstream, environ: Mapping[str, str], reached_at: str = ""
    ) -> None:
        self.upstream = upstream
        self.addressed = False
        """Whether the client itself calls this address, with its own key."""
        self.key = environ.get(upstream.key_env, "").strip() if upstream.key_env else ""
        own = _KEY_HEADERS.get(upstream.dialect)
        bearer = own is None or upstream.key_env == BEARER_KEY
        self.key_header = "Authorization" if bearer else str(own)
        self.proxy = proxy_of(reached_at or upstream.base_url, environ)
        parts = urlsplit(upstream.base_url)
        self.address = parts.netloc.rpartition("@")[2]
        self.attributes = {
            "gen_ai.provider.name": provider_of(upstream),
            "server.address": host_of(upstream),
            "server.port": parts.port or (443 if parts.scheme == "https" else 80),
            "ratchet.upstream": upstream.name,
        }
        """Attributes of every span of a call to the upstream."""
        self.sellers = (upstream.base_url, upstream.dialect)
        self.timeout = aiohttp.ClientTimeout(
            total=max(TOTAL_TIMEOUT_S, upstream.timeout_s),
            sock_connect=CONNECT_TIMEOUT_S,
            sock_read=upstream.timeout_s,
        )
        self._base = (reached_at or upstream.base_url).rstrip("/")
        self._urls: dict[str, URL] = {}
        self._free = asyncio.Semaphore(upstream.concurrency)
        self._waiting = 0

    def url(self, path: str, query: bytes) -> URL:
        """URL of a call.

        Args:
            path: Path below the upstream's base URL; a version that both have counts once.
            query: Query as the client sent it.
        """
        if path.startswith("v1/") and self._base.endswith("/v1"):
            path = path.removeprefix("v1/")
        if query:
            return URL(f"{self._base}/{path}?{query.decode('latin-1')}", encoded=True)
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = URL(f"{self._base}/{path}", encoded=True)
        return url

    async def acquire(self) -> None:
        """Acquire a slot for a call, waiting for a bounded time.

        Raises:
            HttpProblem: 429, when no slot became free in time or too many calls wait.
        """
        if not self._free.locked():
            await self._free.acquire()
            return
        if self._waiting >= WAITING_RATIO * self.upstream.concurrency:
            raise self._busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(SLOT_TIMEOUT_S):
                await self._free.acquire()
        except TimeoutError:
            raise self._busy() from None
        finally:
            self._waiting -= 1

    def release(self) -> None:
        """Release the slot of a call."""
        self._free.release()

    def _busy(self) -> HttpProblem:
        return HttpProblem(
            429,
            f"{counted(self.upstream.concurrency, 'call')} to the upstream {self.upstream.name!r}"
            " are in flight, which is its limit.",
            hint=f"Try again, or raise concurrency under [upstreams.{self.upstream.name}].",
            headers={"retry-after": "1"},
        )


class UpstreamPool:
    """Connections to all upstreams.

    Args:
        upstreams: The upstreams.
        environ: Environment with the keys.
        hosts: Hosts that clients may call by themselves.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        environ: Mapping[str, str],
        hosts: Sequence[str] = (),
    ) -> None:
        self.upstreams = tuple(upstreams)
        self._hosts = tuple(hosts)
        self._addressed: OrderedDict[tuple[str, str], UpstreamEndpoint] = OrderedDict()
        self._environ = environ
        self._endpoints: dict[str, UpstreamEndpoint] = {}
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Create the session; no connection is opened yet."""
        self._endpoints = {
            upstream.name: UpstreamEndpoint(upstream, self._environ) for upstream in self.upstreams
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

    def addressed(self, dialect: DialectName, base_url: str) -> UpstreamEndpoint:
        """The endpoint of a base URL that a client itself calls.

        Raises:
            HttpProblem: 403, when it is at none of the hosts.
        """
        if not is_of(base_url, self._hosts):
            raise HttpProblem(
                403,
                f"{base_url[:300]} is not at one of the agent's model hosts.",
                hint="Name its host in ratchet.toml: [agent] model_hosts.",
            )
        endpoint = self._addressed.get((dialect, base_url))
        if endpoint is None:
            upstream = Upstream(
                name=urlsplit(base_url).netloc,
                dialect=dialect,
                base_url=base_url,
                key_env=_KEYS.get(dialect, ""),
            )
            endpoint = UpstreamEndpoint(upstream, self._environ, reached_at(base_url))
            endpoint.addressed = True
            self._addressed[dialect, base_url] = endpoint
            if len(self._addressed) > ADDRESSED:
                self._addressed.popitem(last=False)
        return endpoint

    async def send(
        self,
        endpoint: UpstreamEndpoint,
        method: str,
        url: URL,
        headers: CIMultiDict[str],
        body: Content | None,
    ) -> aiohttp.ClientResponse:
        """Send a request; return when the response headers have arrived.

        Raises:
            aiohttp.ClientError: The request failed.
            TimeoutError: The response did not arrive in time.
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
    """Proxy for a URL according to HTTPS_PROXY, NO_PROXY and the other usual variables."""

    def variable(name: str) -> str:
        return environ.get(name.lower()) or environ.get(name.upper()) or ""

    parts = urlsplit(url)
    proxy = variable(f"{parts.scheme}_proxy") or variable("all_proxy")
    if not proxy:
        return None
    host = parts.hostname or ""
    for suffix in variable("no_proxy").split(","):
        direct = suffix.strip().lstrip(".").lower()
        if direct and (direct == "*" or host == direct or host.endswith(f".{direct}")):
            return None
    return proxy if "://" in proxy else f"http://{proxy}"
