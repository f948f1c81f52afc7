"""Commands that import the agent's code, each in a process of its own.

A server lives long: in its own process the agent's modules would stay as they were first imported,
and what the agent prints or breaks would be the server's. Such a process can also be stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from ratchet.types import RatchetError

STOP_S = 20.0
"""Time for a command to save its work after an interrupt, in seconds."""

_CHUNK = 1 << 16
_LINES = 40


class CommandProcess:
    """One command that prints JSON, running.

    Args:
        folder: Where it runs.
        arguments: Of `ratchet`, with `--json`.
        environ: Its environment; by default that of this process.
    """

    def __init__(
        self, folder: Path, arguments: list[str], environ: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._arguments = arguments
        self._environ = environ
        self._process: asyncio.subprocess.Process | None = None
        self._out = bytearray()
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._reading: asyncio.Task[None] | None = None
        self.lines = 0
        """Lines of progress so far."""

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._reading is not None and not self._reading.done()

    @property
    def newest(self) -> list[str]:
        """The newest lines of progress, oldest first."""
        return list(self._lines)

    async def start(self) -> None:
        """Start it."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ratchet",
            *self._arguments,
            cwd=self._folder,
            env=self._environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._reading = asyncio.create_task(self._read())

    async def wait(
        self,
        seconds: float | None = None,
        on_line: Callable[[int, str], Awaitable[None]] | None = None,
    ) -> bool:
        """Wait for its end.

        Args:
            seconds: At most; None for as long as it takes.
            on_line: Called with the number and text of the newest line of progress, when it is new.

        Returns:
            Whether it has ended.
        """
        assert self._reading is not None
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        told = self.lines
        while self.running:
            left = 1.0 if end is None else min(1.0, end - loop.time())
            if left <= 0:
                return False
            await asyncio.wait([self._reading], timeout=left)
            if on_line is not None and self.lines > told:
                told = self.lines
                await on_line(told, self._lines[-1])
        return True

    def result(self) -> tuple[Any, str]:
        """Its JSON, and what it said went wrong; empty if nothing did.

        Raises:
            RatchetError: It gave no JSON.
        """
        assert self._process is not None
        text = self._out.decode(errors="replace").strip()
        problem = self._problem() if self._process.returncode else ""
        with contextlib.suppress(ValueError):
            # What the agent prints while it is imported stands above.
            return json.loads(text.rpartition("\n")[2]), problem
        raise RatchetError(problem or "The command gave no answer.")

    async def stop(self) -> None:
        """Interrupt it, and wait until it has saved its work."""
        if self._process is None or self._reading is None or not self.running:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        done, _ = await asyncio.wait([self._reading], timeout=STOP_S)
        if not done:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await asyncio.wait([self._reading])

    def _problem(self) -> str:
        lines = self.newest
        starts = [number for number, line in enumerate(lines) if line.startswith("error: ")]
        if starts:
            return "\n".join(lines[starts[-1] :]).removeprefix("error: ")
        assert self._process is not None
        code = self._process.returncode
        return "\n".join([f"The command ended with code {code}.", *lines[-3:]])

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        await asyncio.gather(
            self._read_out(self._process.stdout), self._read_lines(self._process.stderr)
        )
        await self._process.wait()

    async def _read_out(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(_CHUNK):
            self._out += data

    async def _read_lines(self, stream: asyncio.StreamReader) -> None:
        rest = b""
        while data := await stream.read(_CHUNK):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                self._add(line)
            rest = rest[-_CHUNK:]
        self._add(rest)

    def _add(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        if text:
            self._lines.append(text[:2000])
            self.lines += 1
