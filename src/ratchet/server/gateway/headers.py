"""Header filtering: which headers pass the gateway, and the replacement of keys."""

from __future__ import annotations

import re
from collections.abc import Sequence

from multidict import CIMultiDict

from ratchet._asgi import HeaderList, Headers
from ratchet.run.model_hosts import UPSTREAM_HEADER
from ratchet.server.origin import is_of_proxy
from ratchet.worker.environment import NO_TOKEN

ROLLOUT_HEADER = b"x-ratchet-rollout"
"""Names the attempt that a call belongs to, for services that serve many at once."""

CONVERSATION_HEADER = b"x-ratchet-conversation"
"""Names the conversation that a live call belongs to."""

ADDRESS_HEADER = UPSTREAM_HEADER.encode()
"""Names the base URL for which a call was intended, at one of the agent's model hosts."""

ROLE_HEADER = b"x-ratchet-role"
"""Names the role of the agent that makes a call, in a rollout with several."""

ANTHROPIC_VERSION = "2023-06-01"
"""Version of Anthropic's API that translated requests use. The next one, 2026-10-21, refuses
`temperature` and `top_p` for every model; this one leaves it to the model.
"""

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
    # Belong to the client's connection with the gateway.
    b"host",
    b"content-length",
    b"expect",
    ROLLOUT_HEADER,
    CONVERSATION_HEADER,
    ROLE_HEADER,
    ADDRESS_HEADER,
    # Replaced, below.
    b"accept-encoding",
    b"authorization",
    b"x-api-key",
    b"api-key",
    b"x-goog-api-key",
    # Set by browsers for this host.
    b"cookie",
}

_NOT_RETURNED = _HOP_BY_HOP | {
    # Valid for the provider's host only.
    b"alt-svc",
    b"set-cookie",
    b"strict-transport-security",
}

_KEYS = (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key")

# Invalid in response headers; uvicorn rejects them.
_ODD_NAME = re.compile(rb'[\x00-\x1f\x7f()<>@,;:\[\]={} \t\\"/?]')
_ODD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")

_READABLE = frozenset({"gzip", "deflate", "identity"})


def request_headers(
    headers: Sequence[tuple[bytes, bytes]], key: str, key_header: str = "Authorization"
) -> CIMultiDict[str]:
    """Headers to send to the upstream.

    Args:
        headers: Headers of the client, with names in lower case.
        key: The provider's key; when empty, the client's key is passed on unless it is a key or
            token of this server.
        key_header: Header of the key.
    """
    sent: CIMultiDict[str] = CIMultiDict()
    hop_by_hop = _named_by_connection(headers)
    for name, value in headers:
        if name not in _NOT_SENT and name not in hop_by_hop and not is_of_proxy(name):
            sent.add(name.decode("latin-1"), _text(value))
        elif name == b"accept-encoding":
            sent["Accept-Encoding"] = accepted(value.decode("latin-1"))
        elif not key and name in _KEYS and not is_ours(value):
            sent.add(name.decode("latin-1"), _text(value))
    if key:
        sent[key_header] = _key(key, key_header)
    return sent


def _key(key: str, key_header: str) -> str:
    return f"Bearer {key}" if key_header == "Authorization" else key


def translated_headers(
    headers: Headers, key: str, key_header: str, dialect: str
) -> CIMultiDict[str]:
    """Headers to send to a provider other than the one the client calls.

    Nothing of the client's goes there but its name: neither its key nor its organisation.

    Args:
        headers: Headers of the client, with names in lower case.
        key: The provider's key; empty for none.
        key_header: Header of the key.
        dialect: API of the provider.
    """
    sent: CIMultiDict[str] = CIMultiDict()
    for name, value in headers:
        if name == b"user-agent":
            sent["User-Agent"] = _text(value)
    sent["Content-Type"] = "application/json"
    sent["Accept-Encoding"] = "identity"
    if dialect == "anthropic":
        sent["anthropic-version"] = ANTHROPIC_VERSION
    if key:
        sent[key_header] = _key(key, key_header)
    return sent


def addressed_headers(headers: Sequence[tuple[bytes, bytes]], key: str) -> CIMultiDict[str]:
    """Headers to send to an address that the client itself calls.

    The client's own key goes there. Where it has a key of this server instead of the provider's,
    that is put in its place: the client would have sent it there without a gateway.

    Args:
        headers: Headers of the client, with names in lower case.
        key: The provider's key; empty for none.
    """
    sent = request_headers(headers, "")
    for name, value in headers:
        if key and name in _KEYS and is_ours(value):
            scheme, space, _ = value.decode("latin-1").strip().partition(" ")
            sent[name.decode("latin-1")] = f"{scheme} {key}" if space else key
    return sent


def brings_key(headers: Headers) -> bool:
    """Whether the client sent its own key for the provider."""
    return any(name in _KEYS and value and not is_ours(value) for name, value in headers)


def is_ours(value: bytes) -> bool:
    """Whether a header value is a key or token of this server, or the placeholder for one."""
    scheme, space, credentials = value.strip().partition(b" ")
    credential = credentials.strip() if space and scheme.lower() == b"bearer" else value.strip()
    return credential.startswith((b"rk_", b"ra_")) or credential == NO_TOKEN.encode()


def response_headers(headers: Sequence[tuple[bytes, bytes]]) -> HeaderList:
    """Headers to return to the client, with names in lower case.

    Args:
        headers: Headers of the upstream.
    """
    received = [(name.lower(), value) for name, value in headers]
    hop_by_hop = _named_by_connection(received)
    # RFC 9112, section 6.3: a length is ignored when the body is chunked.
    chunked = any(name == b"transfer-encoding" for name, _ in received)
    return [
        (name, value)
        for name, value in received
        if name not in _NOT_RETURNED
        and name not in hop_by_hop
        and not (chunked and name == b"content-length")
        and not _ODD_NAME.search(name)
        and not _ODD_VALUE.search(value)
    ]


def accepted(value: str) -> str:
    """An Accept-Encoding reduced to encodings that can be decoded for recording."""
    readable = [
        token
        for token in (coding.strip() for coding in value.split(","))
        if token.partition(";")[0].strip().lower() in _READABLE
    ]
    return ", ".join(readable) or "identity"


def _named_by_connection(headers: Headers) -> frozenset[bytes]:
    """Headers that a Connection header declares hop-by-hop."""
    for name, value in headers:
        if name == b"connection":
            return frozenset(option.strip().lower() for option in value.split(b","))
    return frozenset()


def _text(value: bytes) -> str:
    # Values are sent as UTF-8; anything else is Latin-1, as in older standards.
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
