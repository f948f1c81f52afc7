"""Origin: keeps web pages of others from driving an open server, and lets named ones in (CORS)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import TypeAlias

from ratchet.server.problems import Problem
from ratchet.types import ConfigError

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

METHODS = "GET, POST, PUT, DELETE"
REQUEST_HEADERS = (
    "authorization, x-api-key, api-key, content-type, if-none-match, last-event-id, traceparent,"
    " tracestate"
)
SEEN_HEADERS = "etag, retry-after, location"
PREFLIGHT_S = 600

_ORIGIN = re.compile(r"https?://[a-z0-9._-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?")


def check_origins(origins: Iterable[str]) -> frozenset[str]:
    """Origins as browsers send them.

    Raises:
        ConfigError: One is no origin.
    """
    checked = set()
    for origin in origins:
        if not _ORIGIN.fullmatch(origin.lower()):
            raise ConfigError(
                f"[server] cors names {origin!r}, which is no origin.",
                hint="Write scheme, host and port alone, such as https://app.example; a star for"
                " every page there is would open the server to all of them.",
            )
        checked.add(origin.lower())
    return frozenset(checked)


_FORWARDED = frozenset(
    {
        b"cf-connecting-ip",
        b"forwarded",
        b"true-client-ip",
        b"via",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-proto",
        b"x-real-ip",
    }
)
"""Headers that proxies add: RFC 7239, RFC 9110 section 7.6.3, and those in use beside them."""


def proxy_header(headers: Headers) -> str:
    """The name of a header by which a request came through a proxy; empty when none says so."""
    return next((name.decode() for name, _ in headers if name in _FORWARDED), "")


def refuse_foreign(headers: Headers, hosts: Collection[str], origins: Collection[str]) -> None:
    """Refuse what a web page of somebody else sends to a server that needs no key.

    A browser on the same machine reaches loopback, and shows pages of everybody. What it sends
    for a page of another origin says so in `origin` or `sec-fetch-site`; a page whose own name was
    made to point here (DNS rebinding) has that name in `host`.

    Args:
        headers: Of the request.
        hosts: Names of this server besides loopback's, in lower case.
        origins: Those whose pages may come.

    Raises:
        Problem: It is to be refused (403).
    """
    host = origin = site = b""
    for name, value in headers:
        if name == b"host":
            if not (_is_loopback(value) or _host(value) in hosts):
                raise Problem(
                    403,
                    f"This server is not called {value.decode('latin-1')[:200]!r}.",
                    hint="Use 127.0.0.1, name the host in hosts under [server], or show a key.",
                )
            host = value
        elif name == b"origin":
            origin = value
        elif name == b"sec-fetch-site":
            site = value
    if origin:
        said = origin.decode("latin-1").lower()
        same = said.partition("://")[2] == host.decode("latin-1").lower()
        if not same and said not in origins:
            raise Problem(
                403,
                f"Pages of {said[:200]!r} may not use this server.",
                hint="Name the origin in cors under [server], or show a key.",
            )
    elif site in (b"cross-site", b"same-site"):
        raise Problem(403, "Pages of other origins may not use this server.", hint="Show a key.")


def granted_headers(
    method: str, headers: Headers, origins: Collection[str]
) -> list[tuple[bytes, bytes]]:
    """What an answer says of who may read it. Cookies are never asked for: a page shows a key.

    Args:
        method: Of the request.
        headers: Of the request.
        origins: Those whose pages may.
    """
    # Caches must not give one origin's answer to another.
    granted = [(b"vary", b"Origin")]
    sent = dict(headers)
    origin = sent.get(b"origin", b"")
    if origin.decode("latin-1").lower() not in origins:
        return granted
    granted.append((b"access-control-allow-origin", origin))
    if not is_preflight(method, sent.items()):
        granted.append((b"access-control-expose-headers", SEEN_HEADERS.encode()))
        return granted
    granted += [
        (b"access-control-allow-methods", METHODS.encode()),
        (b"access-control-allow-headers", REQUEST_HEADERS.encode()),
        (b"access-control-max-age", str(PREFLIGHT_S).encode()),
    ]
    if sent.get(b"access-control-request-private-network") == b"true":
        granted.append((b"access-control-allow-private-network", b"true"))
    return granted


def is_preflight(method: str, headers: Headers) -> bool:
    """Whether a browser asks beforehand whether a page may send something."""
    return method == "OPTIONS" and any(n == b"access-control-request-method" for n, _ in headers)


@lru_cache(256)
def _host(value: bytes) -> str:
    """The name in a `host` header, without its port, in lower case."""
    text = value.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")


@lru_cache(256)
def _is_loopback(value: bytes) -> bool:
    name = _host(value)
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
