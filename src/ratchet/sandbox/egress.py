"""For systems without containment (macOS): a home of its own, and a proxy named by variables.

The proxy connects to allowed hosts alone, by CONNECT or by a request with a whole URL (RFC 9110,
9112). What makes no use of these variables is not stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from ratchet.sandbox.acts import Act
from ratchet.sandbox.inside.names import allows
from ratchet.sandbox.relay import dial, join

_HEAD_S = 20.0
_FOLDERS = ("home", "tmp")
_TEMPORARY = ("TMPDIR", "TMP", "TEMP")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_DIRECT = "localhost,127.0.0.1,::1"


class EgressProxy:
    """An HTTP proxy on loopback that only connects to allowed hosts.

    Args:
        hosts: The allowed hosts and ports.
    """

    def __init__(self, hosts: Sequence[tuple[str, int]]) -> None:
        self._hosts = [(host.lower(), port) for host, port in hosts]
        self._server: asyncio.Server | None = None
        self._running: set[asyncio.Task[None]] = set()
        self.denied: list[Act] = []

    async def open(self, listener: socket.socket) -> None:
        """Serve on a listener, which is closed with this proxy."""
        listener.setblocking(False)
        self._server = await asyncio.start_server(self._serve, sock=listener)

    async def close(self) -> None:
        """Close all connections and the listener."""
        if self._server is not None:
            self._server.close()
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            async with asyncio.timeout(_HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            method, target, version = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            url = urlsplit(f"//{target}" if method == "CONNECT" else target)
            host, port = (url.hostname or "").lower(), url.port or 80
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError):
            writer.close()
            return
        if not allows(self._hosts, host, port):
            self.denied.append(Act("connect", host, port, "denied"))
            await _refuse(writer, "403 Forbidden", f"{host}:{port} is not allowed in a rollout.\n")
            return
        try:
            async with asyncio.timeout(_HEAD_S):
                back, forth = await dial(host, port)
        except (OSError, TimeoutError) as error:
            await _refuse(writer, "502 Bad Gateway", f"{error}\n")
            return
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            path = url._replace(scheme="", netloc="").geturl() or "/"
            headers = [line for line in head.split(b"\r\n")[1:] if not _is_for_proxy(line)]
            lines = [f"{method} {path} {version}".encode("latin-1"), b"Connection: close", *headers]
            forth.write(b"\r\n".join(lines))
        await join(reader, writer, back, forth)


def _is_for_proxy(line: bytes) -> bool:
    return line.lower().startswith((b"proxy-", b"connection:"))


async def _refuse(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with contextlib.suppress(OSError):
        writer.write(head.encode() + body)
        await writer.drain()
    writer.close()


def led_by_variables(environ: Mapping[str, str], base: str, port: int) -> dict[str, str]:
    """An environment with a home, a temporary folder and a proxy of its own."""
    return {
        **environ,
        **dict.fromkeys(_TEMPORARY, os.path.join(base, "tmp")),
        **dict.fromkeys(_PROXIES, f"http://127.0.0.1:{port}"),
        "HOME": os.path.join(base, "home"),
        "NO_PROXY": _DIRECT,
        "no_proxy": _DIRECT,
    }


def lay_folders(base: str) -> None:
    """Recreate the home and the temporary folder, empty."""
    for name in _FOLDERS:
        place = os.path.join(base, name)
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place, mode=0o700, exist_ok=True)


class Led:
    """A program that environment variables route to a proxy; it has the methods of `Contained`.

    Args:
        process: The program.
        base: The folder with its home.
        listener: Where its proxy listens.
        hosts: The allowed hosts and ports.
    """

    own_network = False
    failed = ""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        base: str,
        listener: socket.socket,
        hosts: Sequence[tuple[str, int]],
    ) -> None:
        self.process = process
        self.base = base
        self._listener = listener
        self._proxy = EgressProxy(hosts)

    async def opened(self) -> None:
        """Start serving its proxy."""
        await self._proxy.open(self._listener)

    def keep(self) -> None:
        """Do nothing: which processes it has is unknown."""

    async def settled(self) -> bool:
        """Recreate its folders; return True, since the program can go on."""
        await asyncio.to_thread(lay_folders, self.base)
        return True

    async def reached(self, port: int) -> socket.socket | None:
        """Do nothing: its network is this machine's."""
        return None

    async def published(self, port: int) -> int:
        """The port itself: its network is this machine's."""
        return port

    def denied(self) -> tuple[Act, ...]:
        """What its proxy refused since the last call."""
        acts = tuple(self._proxy.denied)
        self._proxy.denied.clear()
        return acts

    async def close(self) -> None:
        """End the program, its process group and its proxy."""
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self._proxy.close()
        await asyncio.to_thread(self.process.wait)
        await asyncio.to_thread(shutil.rmtree, self.base, ignore_errors=True)
