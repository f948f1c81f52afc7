"""A worker process as its parent sees it: started, spoken to, killed, its output kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from ratchet.run.environment import SECRETS, without
from ratchet.run.messages import HEADER, FromWorker, ToWorker, decode_from_worker, frame

LOG_BYTES = 64 * 1024 * 1024
"""A log that grows past this while an attempt runs is emptied."""

TAIL_BYTES = 1_500
"""How much of its last output is shown of a worker that crashed."""


class WorkerProcess:
    """One worker process as its parent sees it.

    Args:
        number: Told apart by it from others of the same executor; names its log.
        log: File for what it prints.
        keep_open: A file descriptor that it holds open while it lives.
    """

    def __init__(self, number: int, log: Path, keep_open: int | None) -> None:
        self.number = number
        self.usable = True
        self.candidate: str | None = None
        self._log = log
        self._trimmed = b""
        """The end of what was cut from the log during this attempt."""
        self._keep_open = keep_open
        self._process: subprocess.Popen[bytes] | None = None
        self._swept = False
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Start the process, in a session of its own: a terminal's Ctrl-C is for the parent."""
        mine, theirs = socket.socketpair()
        held = [theirs.fileno(), *([] if self._keep_open is None else [self._keep_open])]
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
                # -P: a module of the user's in this folder must not stand in for one of Python's.
                [sys.executable, "-P", "-m", "ratchet.run.worker", *map(str, held)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=without(os.environ, SECRETS),
                pass_fds=held,
                start_new_session=True,
            )
        finally:
            os.close(log)
            theirs.close()
        self._reader, self._writer = await asyncio.open_connection(sock=mine)

    async def send(self, message: ToWorker) -> None:
        """Send a message.

        Raises:
            OSError: The worker has gone.
        """
        self.post(message)
        assert self._writer is not None
        await self._writer.drain()

    def post(self, message: ToWorker) -> None:
        """Send a message without waiting for room in the socket."""
        assert self._writer is not None
        self._writer.write(frame(message))

    async def receive(self) -> FromWorker | None:
        """The next message, or None when the worker has gone."""
        assert self._reader is not None
        try:
            header = await self._reader.readexactly(HEADER.size)
            return decode_from_worker(await self._reader.readexactly(HEADER.unpack(header)[0]))
        except (asyncio.IncompleteReadError, OSError):
            return None

    @property
    def pid(self) -> int:
        """Its process id; 0 before it started."""
        return self._process.pid if self._process is not None else 0

    def gone(self) -> bool:
        """Whether the process has ended."""
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        """Kill the process and what it started in its session, even after its own end."""
        if self._process is not None and not self._swept:
            # Once only, and at once: the number may name somebody else's process later.
            self._swept = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def ended(self) -> str:
        """Wait for the process, a bounded while, and say how it ended."""
        if self._process is None:
            return "never started"
        for _ in range(200):
            code = self._process.poll()
            if code is not None:
                self.kill()
                if code < 0:
                    return f"was killed by {signal.Signals(-code).name}"
                return f"ended with exit code {code}"
            await asyncio.sleep(0.01)
        self.kill()
        return "stopped answering"

    def close(self) -> None:
        """Give the socket back."""
        if self._writer is not None:
            self._writer.close()

    def log_size(self) -> int:
        """Bytes in the log of the worker's output."""
        with contextlib.suppress(OSError):
            return self._log.stat().st_size
        return 0

    def mark_log(self) -> int:
        """An attempt begins: the position after which what is printed is its own."""
        self._trimmed = b""
        return self.log_size()

    def trim_log(self) -> None:
        """Empty the log when it has grown large."""
        if self.log_size() > LOG_BYTES:
            # Kept here and not written back: the worker may have printed more by then.
            self._trimmed = self._last(0)
            with contextlib.suppress(OSError):
                os.truncate(self._log, 0)

    def log_tail(self, since: int) -> str:
        """The last lines that the worker printed after position `since`, as a paragraph."""
        last = (self._trimmed + self._last(since))[-TAIL_BYTES:]
        text = last.decode("utf-8", "replace").strip()
        return f" Its last output:\n{text}" if text else ""

    def _last(self, since: int) -> bytes:
        with contextlib.suppress(OSError), open(self._log, "rb") as file:
            size = self.log_size()
            # Trimmed meanwhile: all that it holds now is newer.
            file.seek(max(since if since <= size else 0, size - TAIL_BYTES))
            return file.read(TAIL_BYTES)
        return b""
