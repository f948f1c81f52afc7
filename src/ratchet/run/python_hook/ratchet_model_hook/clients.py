"""HTTP clients: their model calls are sent by way of a relay on loopback.

What else is sent stays as it is.
"""

from __future__ import annotations

import contextvars
import functools
import json
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

from .patches import after_import
from .quiet import quiet

CALL_HEADER = "x-ratchet-call"
_LARGEST = 64_000_000
_INSIDE = threading.local()
"""Whether a client that is built on another one is at work."""

_PORTS = {"http": 80, "https": 443}


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


def place_of(url: str) -> str:
    """Host of a URL in lower case, with the port where it is not the scheme's usual one."""
    try:
        place = urlsplit(url)
        host, port = place.hostname or "", place.port
    except ValueError:
        return ""
    host = f"[{host}]" if ":" in host else host
    return host if port in (None, _PORTS.get(place.scheme)) else f"{host}:{port}"


def below(relay: str, url: str) -> str:
    """The URL below a relay's that names another one."""
    place = urlsplit(url)
    host = place.netloc.rpartition("@")[2]
    query = "?" + place.query if place.query else ""
    return f"{relay}/{place.scheme}/{host}{place.path}{query}"


def watch(led: Any) -> None:
    """Patch the clients.

    Args:
        led: Has the relay's `host` and `port`, and `redirected(client, method, url, body)`: the URL
            at the relay and a name for a call that goes there, None for one that does not.
    """
    for name in ("httpx", "httpx2"):
        after_import(name)(functools.partial(_httpx, led, name))
    after_import("urllib3.connectionpool")(functools.partial(_urllib3, led))
    after_import("http.client")(functools.partial(_http_client, led))
    after_import("aiohttp.client")(functools.partial(_aiohttp, led))


def _path(url: str) -> str:
    """A URL without its scheme and host."""
    return "/" + url.split("/", 3)[3]


_NO_NETWORK = ("MockTransport", "ASGITransport", "WSGITransport")


def _httpx(led: Any, library: str, module: Any) -> None:
    send, async_send = module.Client.send, module.AsyncClient.send

    def lead(client: Any, request: Any) -> Any:
        """Lead a request to the relay; return its own URL, or None where it stays."""
        if type(getattr(client, "_transport", None)).__name__ in _NO_NETWORK:
            return None
        own = request.url
        body = getattr(request, "_content", None)
        target = led.redirected(library, request.method, str(own), body)
        if target is None:
            return None
        request.url = module.URL(target[0])
        request.headers[CALL_HEADER] = target[1]
        return own

    @functools.wraps(send)
    def watched_send(self: Any, request: Any, **named: Any) -> Any:
        own = lead(self, request)
        try:
            return send(self, request, **named)
        finally:
            if own is not None:
                request.url = own

    @functools.wraps(async_send)
    async def watched_async_send(self: Any, request: Any, **named: Any) -> Any:
        own = lead(self, request)
        try:
            return await async_send(self, request, **named)
        finally:
            if own is not None:
                request.url = own

    module.Client.send, module.AsyncClient.send = watched_send, watched_async_send


def _urllib3(led: Any, module: Any) -> None:
    urlopen = module.HTTPConnectionPool.urlopen

    @functools.wraps(urlopen)
    def watched_urlopen(
        self: Any, method: str, url: str, body: Any = None, headers: Any = None, **named: Any
    ) -> Any:
        if (self.host, self.port) == (led.host, led.port):
            return urlopen(self, method, url, body, headers, **named)
        whole = url
        if not url.startswith(("http://", "https://")):
            usual = {"http": 80, "https": 443}.get(self.scheme)
            port = "" if self.port in (None, usual) else f":{self.port}"
            whole = f"{self.scheme}://{self.host}{port}{url}"
        target = led.redirected("urllib3", method, whole, body)
        before, _INSIDE.http = getattr(_INSIDE, "http", False), True
        try:
            if target is None:
                return urlopen(self, method, url, body, headers, **named)
            pool = module.HTTPConnectionPool(led.host, led.port)
            sent = dict(self.headers if headers is None else headers)
            sent[CALL_HEADER] = target[1]
            named["assert_same_host"] = False
            return urlopen(pool, method, _path(target[0]), body, sent, **named)
        finally:
            _INSIDE.http = before

    module.HTTPConnectionPool.urlopen = watched_urlopen


def _http_client(led: Any, module: Any) -> None:
    request = module.HTTPConnection.request

    @functools.wraps(request)
    def watched_request(
        self: Any, method: str, url: str, body: Any = None, headers: Any = None, **named: Any
    ) -> Any:
        if headers is None:
            headers = {}
        if getattr(_INSIDE, "http", False) or (self.host, self.port) == (
            led.host,
            led.port,
        ):
            return request(self, method, url, body, headers, **named)
        tls = isinstance(self, getattr(module, "HTTPSConnection", ()))
        host = getattr(self, "_tunnel_host", None) or self.host
        port = (getattr(self, "_tunnel_port", None) if host != self.host else None) or self.port
        usual = 443 if tls else 80
        place = host if port == usual else f"{host}:{port}"
        whole = url
        if not url.startswith(("http://", "https://")):
            whole = "{}://{}{}".format("https" if tls else "http", place, url)
        target = led.redirected("http.client", method, whole, body)
        if target is None:
            if getattr(self, "_ratchet_relay", False):
                self._ratchet_relay = False
                self.close()
            return request(self, method, url, body, headers, **named)
        self.close()
        with quiet():
            self.sock = socket.create_connection((led.host, led.port))
        self._ratchet_relay = True
        sent = dict(headers)
        sent[CALL_HEADER] = target[1]
        return request(self, method, _path(target[0]), body, sent, **named)

    module.HTTPConnection.request = watched_request


def _aiohttp(led: Any, module: Any) -> None:
    from yarl import URL

    target_of: contextvars.ContextVar[Any] = contextvars.ContextVar("ratchet_target", default=None)
    session = module.ClientSession
    request, build_url = session._request, session._build_url

    @functools.wraps(build_url)
    def led_url(self: Any, url: Any) -> Any:
        target = target_of.get()
        return build_url(self, url) if target is None else URL(target, encoded=True)

    @functools.wraps(request)
    async def watched_request(self: Any, method: str, url: Any, **named: Any) -> Any:
        body = named.get("json") if named.get("json") is not None else named.get("data")
        target = led.redirected("aiohttp", method, str(build_url(self, url)), body)
        if target is None:
            return await request(self, method, url, **named)
        sent = self._prepare_headers(named.get("headers"))
        sent[CALL_HEADER] = target[1]
        named["headers"] = sent
        named.pop("proxy", None)
        before = target_of.set(target[0])
        try:
            return await request(self, method, url, **named)
        finally:
            target_of.reset(before)

    session._request, session._build_url = watched_request, led_url
