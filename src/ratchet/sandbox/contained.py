"""A contained program, and its keeper's requests to the process outside: relays, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import shutil
import signal
import socket
import subprocess
from collections import deque

from ratchet.sandbox.acts import Act, ActReader
from ratchet.sandbox.inside import protocol
from ratchet.sandbox.limits import SandboxFailed
from ratchet.sandbox.relay import DialedRelay, RelayAddress, TcpRelay, join

START_TIMEOUT_S = 20.0
SETTLE_S = 10.0


class Contained:
    """A program that runs contained, with its keeper.

    Args:
        process: Its keeper, which ends as the program does.
        control: Our end of the keeper's control socket.
        acts: What the program was denied.
        base: A folder to remove in the end.
        relay: Without a network of its own: where its connections come from.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        control: socket.socket,
        acts: ActReader,
        base: str,
        relay: socket.socket | None,
    ) -> None:
        self.process = process
        self.base = base
        """A folder that is kept when the rest is undone at the end of a rollout."""
        self._control = control
        self._acts = acts
        self._listener = relay
        self.own_network = relay is None
        """Whether its network is its own, so that its ports are only reached by `published`."""
        self._tcp = TcpRelay(proxied=True)
        self._dialed = DialedRelay()
        self._received = bytearray()
        self._descriptors: list[int] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready: asyncio.Future[str] | None = None
        self._settled: asyncio.Future[bool] | None = None
        self._reached: deque[asyncio.Future[socket.socket | None]] = deque()
        self._servers: list[asyncio.Server] = []

    async def opened(self) -> None:
        """Wait until the program has started, and relay its connections from then on.

        Raises:
            SandboxFailed: It cannot be contained.
        """
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        self._control.setblocking(False)
        if self._listener is not None:
            await self._dialed.open(self._listener)
        loop.add_reader(self._control.fileno(), self._read)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                why = await self._ready
        except TimeoutError:
            why = f"it was not ready within {START_TIMEOUT_S:g} s"
        if why:
            await self.close()
            raise SandboxFailed(
                f"The agent cannot be contained on this machine: {why}.",
                hint="Set another level under [sandbox], or unsafe = true to run uncontained.",
            )

    def keep(self) -> None:
        """Let its current processes survive the end of a rollout."""
        self._send(protocol.KEEP)

    async def settled(self) -> bool:
        """End what a rollout left running, and undo its changes in copies of files.

        Returns:
            Whether the program may go on: it left no process, and its keeper answers.
        """
        self._settled = asyncio.get_running_loop().create_future()
        self._send(protocol.SETTLE)
        try:
            async with asyncio.timeout(SETTLE_S):
                return await self._settled
        except TimeoutError:
            return False

    async def reached(self, port: int) -> socket.socket | None:
        """Connect to a port of the program's own network; None if nothing listens there."""
        answer: asyncio.Future[socket.socket | None] = asyncio.get_running_loop().create_future()
        self._reached.append(answer)
        self._send(protocol.REACH, {"port": port})
        try:
            async with asyncio.timeout(SETTLE_S):
                return await answer
        except TimeoutError:
            return None

    async def published(self, port: int) -> int:
        """Forward a free port of this machine to a port of the program's own network; return it."""

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = await self.reached(port)
            if connection is None:
                writer.close()
                return
            back, forth = await asyncio.open_connection(sock=connection)
            await join(reader, writer, back, forth)

        server = await asyncio.start_server(carry, "127.0.0.1", 0)
        self._servers.append(server)
        number: int = server.sockets[0].getsockname()[1]
        return number

    def denied(self) -> tuple[Act, ...]:
        """What it was denied since the last call."""
        return self._acts.taken()

    @property
    def failed(self) -> str:
        """Why the program was not started, once its process has ended; empty if it was."""
        self._acts.acts()
        return self._acts.failed

    async def close(self) -> None:
        """End the program and its relay."""
        if self._control.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()
        with contextlib.suppress(OSError):
            self.process.send_signal(signal.SIGKILL)
        for server in self._servers:
            server.close()
        await self._tcp.close()
        await self._dialed.close()
        await asyncio.to_thread(self.process.wait)
        await asyncio.to_thread(shutil.rmtree, self.base, ignore_errors=True)
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        self._acts.close()

    def _send(self, kind: int, content: dict[str, int] | None = None) -> None:
        body = b"" if content is None else marshal.dumps(content, protocol.MARSHAL)
        with contextlib.suppress(OSError):  # its end is noticed by reading
            self._control.send(protocol.HEADER.pack(kind, len(body)) + body)

    def _read(self) -> None:
        try:
            part, descriptors, _, _ = socket.recv_fds(self._control, 65_536, 16)
        except BlockingIOError:
            return
        except OSError:
            part, descriptors = b"", []
        self._descriptors += descriptors
        self._received += part
        if not part:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._answered("its keeper ended")
        size = protocol.HEADER.size
        while len(self._received) >= size:
            kind, length = protocol.HEADER.unpack_from(self._received)
            if len(self._received) < size + length:
                return
            body = bytes(self._received[size : size + length])
            del self._received[: size + length]
            self._obey(kind, body)

    def _answered(self, why: str) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(why)
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(False)
        while why and self._reached:
            if not (answer := self._reached.popleft()).done():
                answer.set_result(None)

    def _obey(self, kind: int, body: bytes) -> None:
        words = body.decode(errors="replace").split(" ")
        if kind == protocol.READY:
            self._answered("")
        elif kind == protocol.SETUP_FAILED:
            self._answered(body.decode(errors="replace"))
        elif kind == protocol.SETTLED and self._settled is not None:
            if not self._settled.done():
                self._settled.set_result(body == b"\x01")
        elif kind == protocol.LISTENING:
            listener = socket.socket(fileno=self._descriptors.pop(0))
            address = RelayAddress("", words[0], int(words[1]))
            task = asyncio.create_task(self._tcp.open([listener], [address]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif kind == protocol.REACHED:
            connection = socket.socket(fileno=self._descriptors.pop(0)) if body == b"\x01" else None
            answer = self._reached.popleft()
            if not answer.done():
                answer.set_result(connection)
            elif connection is not None:
                connection.close()
        elif kind == protocol.DIALED:
            self._dialed.tell(int(words[0]), RelayAddress("", words[1], int(words[2])))
