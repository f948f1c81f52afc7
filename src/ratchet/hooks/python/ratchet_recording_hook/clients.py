"""HTTP clients: each model call is written with its stack, and sent by way of the relay.

A model call is known by its shape. What else is sent stays as it is; its method, host and path are
noted.
"""

from __future__ import annotations

import contextvars
import copy
import functools
import itertools
import json
import os
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

from .journal import EventJournal, harmless, quiet
from .patches import after_import
from .shapes import about_models, is_model_request
from .stacks import Stacks

CALL_HEADER = "x-ratchet-call"
_LARGEST = 64_000_000
_INSIDE = threading.local()
"""Whether a client that is built on another one is at work."""


class LedClients:
    """What the clients of this process send, of which some is led to a relay on loopback.

    Args:
        relay: The relay's URL.
    """

    def __init__(self, relay: str) -> None:
        self._relay = relay
        place = urlsplit(relay)
        self.host, self.port = place.hostname, place.port

    def redirected(self, client: str, method: str, url: str, body: Any) -> tuple[str, str] | None:
        """The relay's URL for a call and the call's name; None for another request."""
        raise NotImplementedError


class Watched(LedClients):
    """What the clients of a recorded process send.

    Args:
        stacks: The repository's frames.
        journal: Where requests are written.
        relay: URL of the relay.
        simulated: Whether questions about models go to the relay too.
    """

    def __init__(self, stacks: Stacks, journal: EventJournal, relay: str, simulated: bool) -> None:
        super().__init__(relay)
        self._stacks = stacks
        self._journal = journal
        self._simulated = simulated
        self._numbers = itertools.count()
        self._hosts: set[str] = set()
        """Hosts of models that were called."""

    @harmless()
    def redirected(self, client: str, method: str, url: str, body: Any) -> tuple[str, str] | None:
        """The relay's URL for a model call and the call's name; None for another request."""
        if url.startswith(self._relay):
            # A base URL that another program handed on: known already by its address.
            return url, self._written(client, method, url, body)
        place = urlsplit(url)
        if place.scheme not in ("http", "https") or not place.netloc:
            return None
        if not self._journal.is_open():
            return None  # the recording is over, and this process goes on
        method = method.upper()
        model = method == "POST" and is_model_request(place.path, decoded(body))
        if model:
            self._hosts.add(place.netloc)
        of_model = self._simulated and (place.netloc in self._hosts or about_models(place.path))
        if not model and not of_model:
            port = place.port or (443 if place.scheme == "https" else 80)
            self._journal.write(
                "request", method=method, host=place.hostname or "", port=port, path=place.path
            )
            return None
        return below(f"{self._relay}/to", url), self._written(client, method, url, body)

    def _written(self, client: str, method: str, url: str, body: Any) -> str:
        with quiet():
            name = f"{os.getpid()}-{next(self._numbers)}"
            url = url.partition("?")[0]
            stack = self._stacks.names()
            self._journal.write("call", name=name, client=client, url=url, stack=stack)
        return name


def below(relay: str, url: str) -> str:
    """The URL below a relay's that names another one."""
    place = urlsplit(url)
    host = place.netloc.rpartition("@")[2]
    query = "?" + place.query if place.query else ""
    return f"{relay}/{place.scheme}/{host}{place.path}{query}"


def decoded(body: Any) -> Any:
    """The JSON of a body in whatever form a client has it; None where it is none."""
    if isinstance(body, (dict, list)):
        return body
    if isinstance(body, (bytes, bytearray, str)) and len(body) <= _LARGEST:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return None
    return None


def watch(watched: LedClients) -> None:
    """Patch the clients."""
    for name in ("httpx", "httpx2"):
        after_import(name)(functools.partial(_httpx, watched, name))
    after_import("urllib3.connectionpool")(functools.partial(_urllib3, watched))
    after_import("http.client")(functools.partial(_http_client, watched))
    after_import("aiohttp.client")(functools.partial(_aiohttp, watched))
    for place in ("lm15", "dspy._vendor.lm15"):
        for kind in ("_sync", "_async"):
            after_import(f"{place}.transports.{kind}")(functools.partial(_lm15, watched))


def _path(url: str) -> str:
    """A URL without its scheme and host."""
    return "/" + url.split("/", 3)[3]


_NO_NETWORK = ("MockTransport", "ASGITransport", "WSGITransport", "_TestClientTransport")


def _httpx(watched: LedClients, library: str, module: Any) -> None:
    send, async_send = module.Client.send, module.AsyncClient.send

    def lead(client: Any, request: Any) -> Any:
        """Lead a request to the relay; return its own URL, or None where it stays."""
        if type(getattr(client, "_transport", None)).__name__ in _NO_NETWORK:
            return None
        own = request.url
        body = getattr(request, "_content", None)
        target = watched.redirected(library, request.method, str(own), body)
        if target is None:
            return None
        request.url = module.URL(target[0])
        request.headers[CALL_HEADER] = target[1]
        return own

    @functools.wraps(send)
    def watched_send(self: Any, request: Any, **kwargs: Any) -> Any:
        own = lead(self, request)
        try:
            return send(self, request, **kwargs)
        finally:
            if own is not None:
                request.url = own

    @functools.wraps(async_send)
    async def watched_async_send(self: Any, request: Any, **kwargs: Any) -> Any:
        own = lead(self, request)
        try:
            return await async_send(self, request, **kwargs)
        finally:
            if own is not None:
                request.url = own

    module.Client.send, module.AsyncClient.send = watched_send, watched_async_send


def _urllib3(watched: LedClients, module: Any) -> None:
    urlopen = module.HTTPConnectionPool.urlopen

    @functools.wraps(urlopen)
    def watched_urlopen(
        self: Any, method: str, url: str, body: Any = None, headers: Any = None, **kwargs: Any
    ) -> Any:
        if (self.host, self.port) == (watched.host, watched.port):
            return urlopen(self, method, url, body, headers, **kwargs)
        full_url = url
        if not url.startswith(("http://", "https://")):
            usual = {"http": 80, "https": 443}.get(self.scheme)
            port = "" if self.port in (None, usual) else f":{self.port}"
            full_url = f"{self.scheme}://{self.host}{port}{url}"
        target = watched.redirected("urllib3", method, full_url, body)
        before, _INSIDE.http = getattr(_INSIDE, "http", False), True
        try:
            if target is None:
                return urlopen(self, method, url, body, headers, **kwargs)
            pool = module.HTTPConnectionPool(watched.host, watched.port)
            sent = dict(self.headers if headers is None else headers)
            sent[CALL_HEADER] = target[1]
            kwargs["assert_same_host"] = False
            return urlopen(pool, method, _path(target[0]), body, sent, **kwargs)
        finally:
            _INSIDE.http = before

    module.HTTPConnectionPool.urlopen = watched_urlopen


def _http_client(watched: LedClients, module: Any) -> None:
    request = module.HTTPConnection.request

    @functools.wraps(request)
    def watched_request(
        self: Any, method: str, url: str, body: Any = None, headers: Any = None, **kwargs: Any
    ) -> Any:
        if headers is None:
            headers = {}
        if getattr(_INSIDE, "http", False) or (self.host, self.port) == (
            watched.host,
            watched.port,
        ):
            return request(self, method, url, body, headers, **kwargs)
        tls = isinstance(self, getattr(module, "HTTPSConnection", ()))
        host = getattr(self, "_tunnel_host", None) or self.host
        port = (getattr(self, "_tunnel_port", None) if host != self.host else None) or self.port
        usual = 443 if tls else 80
        place = host if port == usual else f"{host}:{port}"
        full_url = url
        if not url.startswith(("http://", "https://")):
            full_url = "{}://{}{}".format("https" if tls else "http", place, url)
        target = watched.redirected("http.client", method, full_url, body)
        if target is None:
            if getattr(self, "_ratchet_relay", False):
                self._ratchet_relay = False
                self.close()
            return request(self, method, url, body, headers, **kwargs)
        self.close()
        with quiet():
            self.sock = socket.create_connection((watched.host, watched.port))
        self._ratchet_relay = True
        sent = dict(headers)
        sent[CALL_HEADER] = target[1]
        return request(self, method, _path(target[0]), body, sent, **kwargs)

    module.HTTPConnection.request = watched_request


def _aiohttp(watched: LedClients, module: Any) -> None:
    from yarl import URL

    target_of: contextvars.ContextVar[Any] = contextvars.ContextVar("ratchet_target", default=None)
    session = module.ClientSession
    request, build_url = session._request, session._build_url

    @functools.wraps(build_url)
    def led_url(self: Any, url: Any) -> Any:
        target = target_of.get()
        return build_url(self, url) if target is None else URL(target, encoded=True)

    @functools.wraps(request)
    async def watched_request(self: Any, method: str, url: Any, **kwargs: Any) -> Any:
        body = kwargs.get("json") if kwargs.get("json") is not None else kwargs.get("data")
        target = watched.redirected("aiohttp", method, str(build_url(self, url)), body)
        if target is None:
            return await request(self, method, url, **kwargs)
        sent = self._prepare_headers(kwargs.get("headers"))
        sent[CALL_HEADER] = target[1]
        kwargs["headers"] = sent
        kwargs.pop("proxy", None)
        before = target_of.set(target[0])
        try:
            return await request(self, method, url, **kwargs)
        finally:
            target_of.reset(before)

    session._request, session._build_url = watched_request, led_url


def _lm15(watched: LedClients, module: Any) -> None:
    """DSPy's own client, which writes to sockets."""
    kind = getattr(module, "StdlibTransport", None) or module.StdlibAsyncTransport
    stream = kind.stream

    @functools.wraps(stream)
    def watched_stream(self: Any, request: Any) -> Any:
        target = watched.redirected("lm15", request.method, request.url, request.body)
        if target is not None:
            request = copy.copy(request)
            request.url = target[0]
            request.headers = [*request.headers, (CALL_HEADER, target[1])]
        return stream(self, request)

    kind.stream = watched_stream
