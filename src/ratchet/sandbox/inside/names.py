"""A name service without a network: it answers each name with an address made up for it."""

from __future__ import annotations

import struct

from .effects import question

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Iterable

_ADDRESS = 1
_FIRST = 198 << 24 | 18 << 16
"""198.18.0.0/15, which no host on a network has (RFC 2544)."""
_MOST = 1 << 17
_TIME_TO_LIVE_S = 60
_RESPONSE, _AUTHORITATIVE, _RECURSION = 0x8000, 0x0400, 0x0180


class Names:
    """The names that a program looked up, each with an address that stands for it.

    Args:
        table: Addresses and names of the machine's own table.
        searched: Domains that resolvers append to a name.
    """

    def __init__(self, table: list[tuple[str, str]], searched: Iterable[str] = ()) -> None:
        self._names = dict(reversed(table))
        self._addresses = {name: address for address, name in reversed(table)}
        self._searched = tuple(f".{domain.lower()}" for domain in searched)
        self.asked: list[str] = []
        """Names that were looked up since this list was cleared."""

    def address(self, name: str) -> str:
        """The address that stands for a name."""
        name = name.lower()
        if name not in self._addresses:
            number = _FIRST + (len(self._addresses) + 1) % _MOST
            address = ".".join(str(byte) for byte in number.to_bytes(4, "big"))
            self._addresses[name] = address
        # The last name that was asked for is the one that a connection is made to.
        self._names[self._addresses[name]] = name
        return self._addresses[name]

    def name(self, address: str) -> str:
        """The name that an address stands for; the address itself if it stands for none."""
        return self._names.get(address, address)

    def answer(self, query: bytes) -> bytes:
        """Answer a DNS query (RFC 1035); nothing for other bytes."""
        try:
            number, flags = struct.unpack_from("!HH", query)
            name, kind, end = question(query)
        except (struct.error, ValueError, IndexError):
            return b""
        # With a domain appended the name would be another one; it is asked for as it is, too.
        missing = name not in self._addresses and name.endswith(self._searched)
        reply = _RESPONSE | _AUTHORITATIVE | _RECURSION & flags | (3 if missing else 0)
        address = b""
        if not missing and kind == _ADDRESS:
            self.asked.append(name)
            raw = bytes(int(part) for part in self.address(name).split("."))
            address = struct.pack("!HHHIH", 0xC00C, kind, 1, _TIME_TO_LIVE_S, 4) + raw
        head = struct.pack("!6H", number, reply, 1, 1 if address else 0, 0, 0)
        return head + query[12:end] + address


def allows(hosts: Iterable[tuple[str, int]], name: str, port: int) -> bool:
    """Whether a host and port is among those that may be reached.

    Args:
        hosts: Names, in lower case, and ports; `*.example.com` is every name below it, `*` each.
        name: The host.
        port: Its port.
    """
    return any(
        port == number
        and (host in ("*", name) or (host.startswith("*.") and name.endswith(host[1:])))
        for host, number in hosts
    )


def resolver_settings() -> tuple[list[str], list[str]]:
    """Addresses of name servers, and the domains that are searched, from resolv.conf(5)."""
    servers: list[str] = []
    searched: list[str] = []
    try:
        with open("/etc/resolv.conf", encoding="utf-8", errors="replace") as file:
            for line in file:
                word, *values = line.split() or [""]
                if word == "nameserver" and values:
                    servers.append(values[0].partition("%")[0])
                elif word in ("search", "domain"):
                    searched = values
    except OSError:
        pass
    return servers or ["127.0.0.1", "::1"], searched
