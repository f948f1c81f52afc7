"""Child process with a time-out, bounded output and cleanup of its process group."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Literal

import msgspec

from ratchet.sandbox.acts import Act
from ratchet.sandbox.contained import Contained
from ratchet.sandbox.containment import AgentContainment
from ratchet.sandbox.egress import Led

TAIL_BYTES = 3_000
"""How much of the end of standard error, or of standard output, an error message shows."""

READ_BYTES = 65_536

LINGER_S = 0.5
"""How long to go on reading after the child has ended, for processes that left its group."""


class ChildEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a child ended."""

    why: Literal["exit", "late", "flood"]
    """exit: by itself. late: killed at its time-out. flood: killed for too much output."""
    code: int
    """Exit code; negative when a signal ended it."""
    stdout: bytes
    stderr: bytes
    """The last bytes of standard error."""
    denied: tuple[Act, ...] = ()
    """Acts outside its sandbox that it was denied."""

    def sentence(self) -> str:
        """Describe an exit with an error code or by a signal."""
        if self.code < 0:
            return f"The command was killed by {_signal_name(-self.code)}."
        return f"The command ended with exit code {self.code}."

    @property
    def error_text(self) -> str:
        """The end of standard error."""
        return self.stderr.decode("utf-8", "replace")

    def tail(self) -> str:
        """The last lines of output, as a paragraph for an error message."""
        last = self.stderr[-TAIL_BYTES:] if self.stderr.strip() else self.stdout[-TAIL_BYTES:]
        text = last.decode("utf-8", "replace").strip()
        return f" Its last output:\n{text}" if text else ""


class ChildProcess:
    """A child process in its own session.

    Args:
        command: Program and arguments.
        cwd: Working folder.
        environ: The whole environment.
        stdin: File with its standard input, which comes through a pipe: programs that poll their
            input, such as chat loops, cannot poll a file.
        containment: What keeps it from acting outside; None to let it.
        hosts: Hosts that it may reach when it is contained, such as the gateway.
        writable: Folders that it may really write to when it is contained.
        given: Files that it reads and writes instead of those of its project, by their places, when
            it is contained.
        taken: Where files go that it writes in copies of its project, by their places.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        stdin: Path,
        containment: AgentContainment | None = None,
        hosts: Sequence[tuple[str, int]] = (),
        writable: Sequence[Path] = (),
        given: Mapping[str, str] = MappingProxyType({}),
        taken: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._environ = environ
        self._stdin = stdin
        self._containment = containment
        self._hosts = hosts
        self._writable = writable
        self._given = given
        self._taken = taken
        self._contained: Contained | Led | None = None

    async def run(self, timeout_s: float, most_bytes: int) -> ChildEnd:
        """Run the process to its end.

        Args:
            timeout_s: Seconds after which the process is killed.
            most_bytes: The process is killed when its standard output exceeds this size.

        Raises:
            OSError: The process cannot be started.
            SandboxFailed: It cannot be contained.
            asyncio.CancelledError: The awaiting task was cancelled; the process is killed.
        """
        process = self._start()
        try:
            if self._contained is not None:
                await self._contained.opened()
            ended = await self._ended(process, timeout_s, most_bytes)
            if self._contained is None:
                return ended
            if self._contained.failed:
                raise OSError(self._contained.failed)
            return msgspec.structs.replace(ended, denied=self._contained.denied())
        finally:
            if self._contained is not None:
                await asyncio.shield(self._contained.close())

    async def _ended(
        self, process: subprocess.Popen[bytes], timeout_s: float, most_bytes: int
    ) -> ChildEnd:
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = _Whole(most_bytes), _Tail()
        assert process.stdin is not None
        reading = [
            asyncio.create_task(_read(process.stdout, out)),
            asyncio.create_task(_read(process.stderr, err)),
        ]
        writing = asyncio.create_task(_write(process.stdin, self._stdin))
        ending = asyncio.create_task(_ended(process.pid))
        flood = asyncio.create_task(out.full.wait())
        try:
            finished, _ = await asyncio.wait(
                {ending, flood}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            # Before the process is reaped: until then its pid cannot be reused.
            _kill_group(process.pid)
            if finished:
                await asyncio.wait(reading, timeout=LINGER_S)
        finally:
            _kill_group(process.pid)
            for task in (*reading, writing, ending, flood):
                task.cancel()
            await asyncio.gather(*reading, writing, ending, flood, return_exceptions=True)
            code = await _reaped(process)
        why: Literal["exit", "late", "flood"] = "exit"
        if out.full.is_set():
            why = "flood"
        elif not finished:
            why = "late"
        return ChildEnd(why=why, code=code, stdout=out.content(), stderr=err.content())

    def _start(self) -> subprocess.Popen[bytes]:
        if self._containment is None:
            return subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env=self._environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        self._contained = self._containment.start(
            self._command,
            hosts=self._hosts,
            writable=self._writable,
            given=self._given,
            taken=self._taken,
            cwd=self._cwd,
            env=self._environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return self._contained.process


class _Whole:
    """Buffers all output, up to a limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0
        self.full = asyncio.Event()

    def add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._most:
            self.full.set()
        else:
            self._parts.append(part)

    def content(self) -> bytes:
        return b"".join(self._parts)


class _Tail:
    """Buffers the end of the output."""

    def __init__(self) -> None:
        self._parts: deque[bytes] = deque()
        self._size = 0

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        while self._size - len(self._parts[0]) >= TAIL_BYTES:
            self._size -= len(self._parts.popleft())

    def content(self) -> bytes:
        return b"".join(self._parts)[-TAIL_BYTES:]


async def _read(pipe: IO[bytes], into: _Whole | _Tail) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=READ_BYTES)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while part := await reader.read(READ_BYTES):
            into.add(part)
    finally:
        transport.close()


async def _write(pipe: IO[bytes], source: Path) -> None:
    """Write a file's content into a pipe, and close it; the program need not read it."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop=loop), pipe
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        data = await asyncio.to_thread(source.read_bytes)
        with contextlib.suppress(ConnectionError):
            for begin in range(0, len(data), READ_BYTES):
                writer.write(data[begin : begin + READ_BYTES])
                await writer.drain()
    finally:
        writer.close()


async def _ended(pid: int) -> None:
    """Wait until a child has ended without reaping it, so that its pid is not reused."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # no pidfd on this system
        pause_s = 0.001
        while not _has_ended(pid):
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, 0.05)
        return
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(descriptor, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


async def _reaped(process: subprocess.Popen[bytes]) -> int:
    """Reap a process that was killed or has ended; return its exit code."""
    pause_s = 0.001
    while (code := process.poll()) is None:
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)
    return code


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
