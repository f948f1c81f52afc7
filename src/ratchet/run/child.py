"""A child process: run to its end or its time-out, its output bounded, its group cleaned up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Literal

import msgspec

TAIL_BYTES = 3_000
"""How much of the end of standard error, or of output, is shown in an error."""

READ_BYTES = 65_536

LINGER_S = 0.5
"""How long output may still come from what left the process group of a child that has ended."""


class ChildEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a child ended."""

    why: Literal["exit", "late", "flood"]
    """exit: by itself. late, flood: it was killed for its time, or for its output."""
    code: int
    """Exit code; negative when a signal ended it."""
    stdout: bytes
    stderr: bytes
    """Its end."""

    def sentence(self) -> str:
        """How it ended, when that was not well."""
        if self.code < 0:
            return f"The command was killed by {_signal_name(-self.code)}."
        return f"The command ended with exit code {self.code}."

    def tail(self) -> str:
        """The last lines that it printed, as a paragraph."""
        last = self.stderr[-TAIL_BYTES:] if self.stderr.strip() else self.stdout[-TAIL_BYTES:]
        text = last.decode("utf-8", "replace").strip()
        return f" Its last output:\n{text}" if text else ""


class ChildProcess:
    """A process in a session of its own.

    Args:
        command: Program and arguments.
        cwd: Its working folder.
        environ: Its whole environment.
        stdin: A file that is its standard input.
    """

    def __init__(
        self, command: Sequence[str], *, cwd: Path, environ: Mapping[str, str], stdin: Path
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._environ = environ
        self._stdin = stdin

    async def run(self, timeout_s: float, most_bytes: int) -> ChildEnd:
        """Run it to its end.

        Args:
            timeout_s: It is killed after so many seconds.
            most_bytes: It is killed when it prints more than that on standard output.

        Raises:
            OSError: It cannot be started.
            asyncio.CancelledError: The awaiting task was cancelled; the process is killed.
        """
        process = self._start()
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = _Kept(most_bytes), _Tail()
        reading = [
            asyncio.create_task(_read(process.stdout, out)),
            asyncio.create_task(_read(process.stderr, err)),
        ]
        ending = asyncio.create_task(_ended(process.pid))
        flood = asyncio.create_task(out.full.wait())
        try:
            done, _ = await asyncio.wait(
                {ending, flood}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            # Before it is waited for: until then nobody else can have its number.
            _kill_group(process.pid)
            if done:
                await asyncio.wait(reading, timeout=LINGER_S)
        finally:
            _kill_group(process.pid)
            for task in (*reading, ending, flood):
                task.cancel()
            await asyncio.gather(*reading, ending, flood, return_exceptions=True)
            code = await _reaped(process)
        why: Literal["exit", "late", "flood"] = "exit"
        if out.full.is_set():
            why = "flood"
        elif not done:
            why = "late"
        return ChildEnd(why=why, code=code, stdout=out.content(), stderr=err.content())

    def _start(self) -> subprocess.Popen[bytes]:
        with open(self._stdin, "rb") as stdin:
            return subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env=self._environ,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )


class _Kept:
    """Output that is kept whole, up to a limit."""

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
    """Output of which the end is kept."""

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


async def _read(pipe: IO[bytes], into: _Kept | _Tail) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=READ_BYTES)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while part := await reader.read(READ_BYTES):
            into.add(part)
    finally:
        transport.close()


async def _ended(pid: int) -> None:
    """Wait until a child has ended, without taking its exit code: its number stays its own."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not on this system
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
    """The exit code of a process that was killed or has ended."""
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
