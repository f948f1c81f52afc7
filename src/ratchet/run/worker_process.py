"""Handle of a worker process in its parent: start, messages, kill, and log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from ratchet.run.reachable import hosts_of, model_hosts
from ratchet.sandbox.acts import Act
from ratchet.sandbox.contained import Contained
from ratchet.sandbox.containment import AgentContainment
from ratchet.sandbox.egress import Led
from ratchet.worker.environment import SECRETS, without
from ratchet.worker.messages import (
    HEADER,
    OTHER_BUILD,
    AgentUnusable,
    FromWorker,
    ToWorker,
    WorkerSetup,
    decode_from_worker,
    frame,
)

LOG_BYTES = 64 * 1024 * 1024
"""Size in bytes at which a log is truncated while an attempt runs."""

TAIL_BYTES = 2_500
"""How much of a crashed worker's output an error message shows."""


class WorkerProcess:
    """Handle of a worker process in its parent.

    Args:
        number: Unique in the executor.
        log: File for the worker's output.
        keep_open: File descriptor that the worker holds open while it lives.
        python: Path of the interpreter that it runs in; empty for this one.
        containment: What keeps it from acting outside; None to let it.
        hook_variables: What lead its calls to model hosts elsewhere, from its start on.
    """

    def __init__(
        self,
        number: int,
        log: Path,
        keep_open: int | None,
        python: str = "",
        containment: AgentContainment | None = None,
        hook_variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._hook_variables = hook_variables
        self._containment = containment
        self._contained: Contained | Led | None = None
        self.number = number
        self._log = log
        self._python = python or sys.executable
        self._trimmed = b""
        """The last bytes truncated from the log during the current attempt."""
        self._keep_open = keep_open
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self, setup: WorkerSetup) -> None:
        """Start the process in its own session: a terminal's Ctrl-C reaches the parent only.

        Args:
            setup: First message to it.

        Raises:
            OSError: It cannot be started.
            SandboxFailed: It cannot be contained.
        """
        mine, theirs = socket.socketpair()
        descriptors = [theirs.fileno(), *([] if self._keep_open is None else [self._keep_open])]
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            # -P: the user's modules in this folder must not shadow the standard library.
            command = [self._python, "-P", "-m", "ratchet.worker", *map(str, descriptors)]
            environ = {**without(os.environ, SECRETS), **self._hook_variables}
            if self._containment is None:
                self._process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environ,
                    pass_fds=descriptors,
                    start_new_session=True,
                )
            else:
                os.makedirs(setup.outbox, exist_ok=True)
                variables = {**environ, **setup.agent.variables}
                self._contained = self._containment.start(
                    command,
                    hosts=[
                        *hosts_of([setup.gateway, *setup.import_variables.values()]),
                        *(() if setup.gateway else model_hosts(variables)),
                    ],
                    writable=[setup.outbox],
                    env=environ,
                    pass_fds=descriptors,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                self._process = self._contained.process
        finally:
            os.close(log)
            theirs.close()
        self._reader, self._writer = await asyncio.open_connection(sock=mine)
        if self._contained is not None:
            await self._contained.opened()
            # A worker that outlives its parent reaches no server: it leaves its outcomes.
            scratch = self._contained.base
            setup = msgspec.structs.replace(setup, scratch=scratch, server="", contained=True)
        await self.send(setup)

    def loaded(self) -> None:
        """Note that the agent is loaded: what it has started until now may stay."""
        if self._contained is not None:
            self._contained.keep()

    async def settled(self) -> bool:
        """After an attempt: end and undo what it left behind, if the worker is contained.

        Returns:
            Whether the next attempt may run in this worker.
        """
        return self._contained is None or await self._contained.settled()

    def denied(self) -> tuple[Act, ...]:
        """What the worker was denied outside its own process since the last call."""
        return () if self._contained is None else self._contained.denied()

    async def send(self, message: ToWorker) -> None:
        """Send a message.

        Raises:
            OSError: The worker is gone.
        """
        self.post(message)
        assert self._writer is not None
        await self._writer.drain()

    def post(self, message: ToWorker) -> None:
        """Queue a message without waiting for the socket to drain."""
        assert self._writer is not None
        self._writer.write(frame(message))

    async def receive(self) -> FromWorker | None:
        """The next message, or None if the worker is gone."""
        assert self._reader is not None
        try:
            header = await self._reader.readexactly(HEADER.size)
            return decode_from_worker(await self._reader.readexactly(HEADER.unpack(header)[0]))
        except (asyncio.IncompleteReadError, OSError):
            return None
        except msgspec.DecodeError:
            return AgentUnusable(OTHER_BUILD)

    @property
    def pid(self) -> int:
        """Process id; 0 before the start."""
        return self._process.pid if self._process is not None else 0

    def gone(self) -> bool:
        """Whether the process has ended."""
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        """Kill the process group, even after the process itself has ended."""
        if self._process is not None and not self._killed:
            # Once only: the pid may be reused later.
            self._killed = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def ended(self) -> str:
        """Wait up to 2 s for the process to end; describe how it ended."""
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

    async def release(self) -> None:
        """End the containment, once the process has ended."""
        if self._contained is not None:
            await self._contained.close()

    def close(self) -> None:
        """Close the socket, and discard unsent messages."""
        if self._writer is not None:
            self._writer.transport.abort()

    def log_size(self) -> int:
        """Size of the log in bytes."""
        with contextlib.suppress(OSError):
            return self._log.stat().st_size
        return 0

    def mark_log(self) -> int:
        """Log position at the start of an attempt; its output follows."""
        self._trimmed = b""
        return self.log_size()

    def trim_log(self) -> None:
        """Truncate the log when it has grown large."""
        if self.log_size() > LOG_BYTES:
            # Not written back: the worker may print at the same time.
            self._trimmed = self._last(0)
            with contextlib.suppress(OSError):
                os.truncate(self._log, 0)

    def log_tail(self, since: int) -> str:
        """The last lines of output after position `since`, as a paragraph for an error message."""
        last = (self._trimmed + self._last(since))[-TAIL_BYTES:]
        text = last.decode("utf-8", "replace").strip()
        return f" Its last output:\n{text}" if text else ""

    def _last(self, since: int) -> bytes:
        with contextlib.suppress(OSError), open(self._log, "rb") as file:
            size = self.log_size()
            # After a truncation, the whole log is newer than `since`.
            file.seek(max(since if since <= size else 0, size - TAIL_BYTES))
            return file.read(TAIL_BYTES)
        return b""
