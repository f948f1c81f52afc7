"""Headers: which of them pass the gateway, and what becomes of keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from multidict import CIMultiDict

Raw: TypeAlias = Iterable[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)

_NOT_SENT = _HOP_BY_HOP | {
    # Belong to the connection with the gateway.
    b"host",
    b"content-length",
    b"expect",
    b"forwarded",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-proto",
    b"x-real-ip",
    # Set anew, below.
    b"accept-encoding",
    b"authorization",
    b"x-api-key",
    b"api-key",
    # A browser's, for this host.
    b"cookie",
}

_NOT_RETURNED = _HOP_BY_HOP | {
    # True of the provider's host, not of this one.
    b"alt-svc",
    b"set-cookie",
    b"strict-transport-security",
}

_KEYS = (b"authorization", b"x-api-key", b"api-key")

# What this server forbids in an answer's headers, as uvicorn does.
_ODD_NAME = re.compile(rb'[\x00-\x1f\x7f()<>@,;:\[\]={} \t\\"/?]')
_ODD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")

_READABLE = frozenset({"gzip", "deflate", "identity"})


def request_headers(
    headers: Sequence[tuple[bytes, bytes]], dialect: str, key: str
) -> CIMultiDict[str]:
    """The headers that the upstream gets.

    Args:
        headers: Those of the client, with names in lower case.
        dialect: How the upstream takes its key.
        key: The provider's key; when it is empty, a key of the client's that is none of ours
            is passed on.
    """
    sent: CIMultiDict[str] = CIMultiDict()
    named = _named_by_connection(headers)
    for name, value in headers:
        if name not in _NOT_SENT and name not in named:
            sent.add(name.decode("latin-1"), _text(value))
        elif name == b"accept-encoding":
            sent["Accept-Encoding"] = accepted(value.decode("latin-1"))
        elif not key and name in _KEYS and not is_ours(value):
            sent.add(name.decode("latin-1"), _text(value))
    if key:
        if dialect == "anthropic":
            sent["x-api-key"] = key
        else:
            sent["Authorization"] = f"Bearer {key}"
    return sent


def brings_key(headers: Raw) -> bool:
    """Whether a client sent a key that is none of ours."""
    return any(name in _KEYS and value and not is_ours(value) for name, value in headers)


def is_ours(value: bytes) -> bool:
    """Whether a header's value holds a key or a token of this server."""
    scheme, space, credentials = value.strip().partition(b" ")
    found = credentials.strip() if space and scheme.lower() == b"bearer" else value.strip()
    return found.startswith((b"rk_", b"ra_"))


def response_headers(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers that the client gets, with names in lower case.

    Args:
        headers: Those of the upstream.
    """
    given = [(name.lower(), value) for name, value in headers]
    named = _named_by_connection(given)
    # A length beside chunks is to be ignored, says RFC 9112, section 6.3.
    chunked = any(name == b"transfer-encoding" for name, _ in given)
    return [
        (name, value)
        for name, value in given
        if name not in _NOT_RETURNED
        and name not in named
        and not (chunked and name == b"content-length")
        and not _ODD_NAME.search(name)
        and not _ODD_VALUE.search(value)
    ]


def accepted(value: str) -> str:
    """An Accept-Encoding without what cannot be read here: what passes is also recorded."""
    kept = [
        token
        for token in (one.strip() for one in value.split(","))
        if token.partition(";")[0].strip().lower() in _READABLE
    ]
    return ", ".join(kept) or "identity"


def _named_by_connection(headers: Raw) -> frozenset[bytes]:
    """Headers that a Connection header calls hop-by-hop."""
    for name, value in headers:
        if name == b"connection":
            return frozenset(one.strip().lower() for one in value.split(b","))
    return frozenset()


def _text(value: bytes) -> str:
    # It is sent as UTF-8. What is not UTF-8 is Latin-1, by the older standards.
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
