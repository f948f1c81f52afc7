"""Forwarded requests: the client's address behind proxies that the server trusts.

Each proxy appends the address that it was connected from, so the list is read from its end, past
trusted proxies alone: what lies beyond an untrusted one is a claim of its own.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ratchet._asgi import Headers
from ratchet.types import ConfigError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_FOR = re.compile(r'(?:^|;)\s*for\s*=\s*(?:"([^"\\]*)"|([^;,"\s]*))\s*(?=;|$)', re.IGNORECASE)
"""The `for` of an element of `Forwarded` (RFC 7239, section 4)."""

_WITH_PORT = re.compile(r"\[([0-9A-Fa-f:.%]+)\](?::[0-9]+)?|([0-9.]+):[0-9]+")


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    """Read addresses and networks of proxies, such as `10.0.0.0/8`.

    Raises:
        ConfigError: One is neither.
    """
    networks: list[Network] = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise ConfigError(
                f"[server] trusted_proxies has {text!r}, which is not an address or network: "
                f"{error}.",
                hint='Write addresses and networks, such as ["10.0.0.0/8", "::1"].',
            ) from None
    return tuple(networks)


def client_address(peer: str, headers: Headers, trusted: Sequence[Network]) -> str:
    """Address of the client that a request comes from.

    Args:
        peer: Address that the connection comes from.
        headers: The request's headers, with names in lower case.
        trusted: Networks of the trusted proxies.

    Returns:
        The last address that is not of a trusted proxy: the peer's own, or that which a trusted
        proxy was connected from by `X-Forwarded-For` or `Forwarded`. Where both are there and
        differ, or one is unreadable, it is that of the proxy that sent them.
    """
    at = _address(peer)
    if at is None or not _is_trusted(at, trusted):
        return peer
    lists: dict[bytes, list[str]] = {}
    for name, value in headers:
        if name in (b"x-forwarded-for", b"forwarded"):
            lists.setdefault(name, []).extend(value.decode("latin-1").split(","))
    addresses = {
        _last_untrusted(at, map(_for_of, elements) if name == b"forwarded" else elements, trusted)
        for name, elements in lists.items()
    }
    return str(addresses.pop() if len(addresses) == 1 else at)


def _last_untrusted(at: Address, elements: Iterable[str], trusted: Sequence[Network]) -> Address:
    for element in reversed(list(elements)):
        before = _address(element)
        if before is None:
            return at
        at = before
        if not _is_trusted(at, trusted):
            return at
    return at


def _for_of(element: str) -> str:
    match = _FOR.search(element)
    return (match[1] or match[2] or "") if match else ""


def _address(text: str) -> Address | None:
    text = text.strip()
    match = _WITH_PORT.fullmatch(text)
    try:
        address = ipaddress.ip_address((match[1] or match[2]) if match else text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_trusted(address: Address, trusted: Sequence[Network]) -> bool:
    return any(address in network for network in trusted)
