"""Relay TCP connections from a sandbox to the few addresses it may reach.

A sandbox with its own network listens there for each address, and passes the listening sockets out
before any code runs in it. Connections to them are accepted here and forwarded to their
destination. In the sandbox, `/etc/hosts` maps each name to its listener.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from base64 import b64encode
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ratchet.sandbox.inside import landlock
from ratchet.sandbox.limits import Level, SandboxFailed, SandboxUnavailable
from ratchet.types.wording import counted

_LOCAL = ("localhost", "127.0.0.1")
_MOST = 64
"""Maximum concurrent connections."""
_CONNECT_S = 20.0
_TOLD_S = 5.0
_CHUNK = 65_536


class RelayAddress(NamedTuple):
    """An address that a sandbox may reach."""

    inside: str
    """The loopback address that represents it in the sandbox."""
    host: str
    port: int


def addresses(connect: Sequence[tuple[str, int]], level: Level, version: int) -> list[RelayAddress]:
    """Check the addresses that a sandbox may reach, and assign each an address inside.

    Args:
        connect: Hosts and ports.
        level: The sandbox level.
        version: The version of Landlock.

    Raises:
        SandboxFailed: One of them cannot be relayed at this level.
        SandboxUnavailable: None can be relayed at this level with this kernel.
    """
    names: dict[str, str] = {}
    addresses = []
    for host, port in connect:
        if not 0 < port < 65_536:
            raise SandboxFailed(
                f"connect: {host}:{port} is not a valid address; ports are 1 to 65535."
            )
        if host in _LOCAL:
            inside = "127.0.0.1"
        elif level == "landlock":
            raise SandboxFailed(
                f"connect: {host}:{port} cannot be reached from a Landlock sandbox, which has no "
                "name service and no separate network.",
                hint="Install bubblewrap, or name a proxy or gateway on localhost.",
            )
        elif _is_number(host) and level == "bubblewrap":
            raise SandboxFailed(
                f"connect: {host}:{port} cannot be relayed by its IP address.",
                hint="Use a host name instead, or a proxy on localhost.",
            )
        else:
            inside = names.setdefault(host, f"127.0.0.{len(names) + 2}")
        addresses.append(RelayAddress(inside, host, port))
    if addresses and level == "landlock" and version < landlock.TCP_FROM:
        raise SandboxUnavailable(
            "connect needs bubblewrap here: this kernel's Landlock has no network rules.",
            hint="Install bubblewrap, or use Linux 6.7 or newer.",
        )
    if len(names) > 250:
        raise SandboxFailed(
            f"connect names {counted(len(names), 'host')}; at most 250 are allowed."
        )
    return addresses


def hosts_file(reached: Sequence[RelayAddress]) -> bytes:
    """The sandbox's /etc/hosts."""
    lines = ["127.0.0.1 localhost", *(f"{address.inside} {address.host}" for address in reached)]
    return "\n".join([*dict.fromkeys(lines), ""]).encode()


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class TcpRelay:
    """Forwards connections from the listeners of one sandbox to their destinations.

    Args:
        proxied: By way of the proxy that the environment names, if it does.
    """

    def __init__(self, *, proxied: bool = False) -> None:
        self._proxied = proxied
        self._servers: list[asyncio.Server] = []
        self._free = asyncio.Semaphore(_MOST)
        self._running: set[asyncio.Task[None]] = set()

    async def open(
        self, listeners: Sequence[socket.socket], reached: Sequence[RelayAddress]
    ) -> None:
        """Accept connections.

        Args:
            listeners: Listening sockets, which are closed with this relay.
            reached: The destination of each.
        """
        for listener, address in zip(listeners, reached, strict=True):
            listener.setblocking(False)

            async def carry(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                address: RelayAddress = address,
            ) -> None:
                task = asyncio.current_task()
                assert task is not None
                self._running.add(task)
                task.add_done_callback(self._running.discard)
                async with self._free:
                    await _carry(reader, writer, address, self._proxied)

            self._servers.append(await asyncio.start_server(carry, sock=listener))

    async def close(self) -> None:
        """Close all connections and listeners."""
        for server in self._servers:
            server.close()
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class DialedRelay:
    """Forwards a keeper's connections to a listener, as the keeper announces them."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._told: dict[int, asyncio.Future[RelayAddress]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def open(self, listener: socket.socket) -> None:
        """Accept connections from this listener, which is closed with this relay."""
        listener.setblocking(False)
        self._server = await asyncio.start_server(self._accept, sock=listener)

    def tell(self, port: int, address: RelayAddress) -> None:
        """Record the destination of the connection that comes from a port."""
        if not (destination := self._future(port)).done():
            destination.set_result(address)

    def _future(self, port: int) -> asyncio.Future[RelayAddress]:
        return self._told.setdefault(port, asyncio.get_running_loop().create_future())

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        port = writer.get_extra_info("peername")[1]
        try:
            async with asyncio.timeout(_TOLD_S):
                address = await self._future(port)
        except TimeoutError:  # of another process on this machine
            writer.close()
            return
        finally:
            self._told.pop(port, None)
        await _carry(reader, writer, address, proxied=True)

    async def close(self) -> None:
        """Close all connections and the listener."""
        if self._server is not None:
            self._server.close()
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _carry(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    address: RelayAddress,
    proxied: bool,
) -> None:
    try:
        async with asyncio.timeout(_CONNECT_S):
            dialed = dial if proxied else asyncio.open_connection
            back, remote_writer = await dialed(address.host, address.port)
    except (OSError, TimeoutError):
        writer.close()  # the sandbox sees that the connection was closed
        return
    await join(reader, writer, back, remote_writer)


async def dial(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a host, through a proxy if the environment names one.

    Raises:
        OSError: It cannot be reached, or the proxy refuses.
    """
    from urllib.request import getproxies, proxy_bypass  # it takes its time

    proxy = None if host in _LOCAL or proxy_bypass(host) else getproxies().get("https")
    way = urlsplit(proxy or "")
    if way.scheme not in ("http", "https") or not way.hostname:
        return await asyncio.open_connection(host, port)
    secure = True if way.scheme == "https" else None
    back, remote_writer = await asyncio.open_connection(
        way.hostname, way.port or (443 if secure else 80), ssl=secure
    )
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if way.username is not None:
        login = f"{unquote(way.username)}:{unquote(way.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {b64encode(login.encode()).decode()}")
    remote_writer.write("\r\n".join([*lines, "", ""]).encode())
    try:
        answer = await back.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        answer = b""
    if answer[8:10] != b" 2":
        remote_writer.close()
        raise ConnectionRefusedError(f"the proxy {way.hostname} does not connect to {place}")
    return back, remote_writer


async def join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    back: asyncio.StreamReader,
    remote_writer: asyncio.StreamWriter,
) -> None:
    """Copy data in both directions between two connections, until both have ended."""
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_copy(reader, remote_writer))
            both.create_task(_copy(back, writer))
    except (OSError, ExceptionGroup):
        pass
    finally:
        writer.close()
        remote_writer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while part := await source.read(_CHUNK):
        target.write(part)
        await target.drain()
    with contextlib.suppress(OSError):
        target.write_eof()
