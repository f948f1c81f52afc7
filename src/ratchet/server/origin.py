"""Origin checks: protect an open server from foreign web pages, allow configured origins (CORS)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from ratchet._asgi import HeaderList, Headers
from ratchet.server.http_problems import HttpProblem
from ratchet.types import ConfigError

METHODS = "GET, POST, PUT, DELETE"
REQUEST_HEADERS = (
    "authorization, x-api-key, api-key, content-type, if-none-match, last-event-id, traceparent,"
    " tracestate"
)
SEEN_HEADERS = "etag, retry-after, location"
PREFLIGHT_S = 600

_ORIGIN = re.compile(r"https?://[a-z0-9._-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?")


def check_origins(origins: Iterable[str]) -> frozenset[str]:
    """Validate origins and convert them to lower case.

    Raises:
        ConfigError: An entry is not an origin.
    """
    checked = set()
    for origin in origins:
        if not _ORIGIN.fullmatch(origin.lower()):
            raise ConfigError(
                f"[server] cors has {origin!r}, which is not an origin.",
                hint="Write scheme, host and port only, such as https://app.example. A star is "
                "not accepted, because it would open the server to every web page.",
            )
        checked.add(origin.lower())
    return frozenset(checked)


_FORWARDED = frozenset(
    {
        b"cdn-loop",
        b"cf-connecting-ip",
        b"cf-connecting-ipv6",
        b"cf-ipcountry",
        b"cf-pseudo-ipv4",
        b"cf-ray",
        b"cf-visitor",
        b"client-ip",
        b"fastly-client-ip",
        b"fly-client-ip",
        b"forwarded",
        b"true-client-ip",
        b"via",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"x-envoy-external-address",
        b"x-original-forwarded-for",
        b"x-original-host",
        b"x-real-ip",
    }
)
"""Headers that proxies add, besides those that begin with `x-forwarded`: RFC 7239, RFC 9110 section
7.6.3, RFC 8586, and those of common proxies and content networks.
"""


def is_of_proxy(name: bytes) -> bool:
    """Whether a header, by its name in lower case, is one that proxies add."""
    return name in _FORWARDED or name.startswith(b"x-forwarded")


def proxy_header(headers: Headers) -> str:
    """Name of the header that shows a request passed a proxy; empty when there is none."""
    return next((name.decode() for name, _ in headers if is_of_proxy(name)), "")


def refuse_foreign(headers: Headers, hosts: Collection[str], origins: Collection[str]) -> None:
    """Refuse requests from foreign web pages to a server that requires no key.

    A browser on the same machine can reach loopback for any page it displays. Requests of a page
    of another origin carry `origin` or `sec-fetch-site`; a page whose own host name was resolved
    to this machine (DNS rebinding) has that name in `host`.

    Args:
        headers: Headers of the request.
        hosts: Accepted host names besides those of loopback, in lower case.
        origins: Origins whose pages are allowed.

    Raises:
        HttpProblem: The request is refused (403).
    """
    host = origin = site = b""
    for name, value in headers:
        if name == b"host":
            if not (_is_loopback(value) or _host(value) in hosts):
                raise HttpProblem(
                    403,
                    f"The host name {value.decode('latin-1')[:200]!r} is not one of this server's.",
                    hint="Use 127.0.0.1, add the name to hosts under [server], or send a key.",
                )
            host = value
        elif name == b"origin":
            origin = value
        elif name == b"sec-fetch-site":
            site = value
    if origin:
        page_origin = origin.decode("latin-1").lower()
        same = page_origin.partition("://")[2] == host.decode("latin-1").lower()
        if not same and page_origin not in origins:
            raise HttpProblem(
                403,
                f"Pages of {page_origin[:200]!r} may not use this server.",
                hint="Add the origin to cors under [server], or send a key.",
            )
    elif site in (b"cross-site", b"same-site"):
        raise HttpProblem(
            403, "Pages of other origins may not use this server.", hint="Send a key."
        )


def granted_headers(method: str, headers: Headers, origins: Collection[str]) -> HeaderList:
    """CORS headers of a response. Credentials are not allowed: pages authenticate with a key.

    Args:
        method: Method of the request.
        headers: Headers of the request.
        origins: Origins whose pages are allowed.
    """
    # Caches must not serve one origin's response to another.
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
    """Whether a request is a CORS preflight."""
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
