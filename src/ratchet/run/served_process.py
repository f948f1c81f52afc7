"""An instance of a service that Ratchet starts: its process, its port and its log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ratchet._waiting import WAITS
from ratchet.sandbox.acts import Act
from ratchet.sandbox.contained import Contained
from ratchet.sandbox.containment import AgentContainment
from ratchet.sandbox.egress import Led
from ratchet.sandbox.inside.process_table import processes
from ratchet.types import AgentError

START_TIMEOUT_S = 120.0
"""Seconds that a service may take until it listens, unless attempts are allowed more."""

END_TIMEOUT_S = 1.0
"""How long to wait for the end of a process whose connection broke."""

POLL_INTERVAL_S = 0.05
TAIL_BYTES = 3_000

LOG_BYTES = 64 * 1024 * 1024
"""Size at which the log is truncated between attempts."""


class ServedProcess:
    """A service's process, in a session of its own, with everything that it starts there.

    Args:
        command: Program and arguments.
        folder: Working folder.
        environ: The whole environment.
        log: File for its output.
        containment: What keeps it from acting outside; None to let it.
        hosts: Hosts that it may reach when it is contained, such as the gateway.
        attempt_s: Seconds that one attempt may take; its start may take as long.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environ: Mapping[str, str],
        log: Path,
        containment: AgentContainment | None = None,
        hosts: Sequence[tuple[str, int]] = (),
        attempt_s: float = 0.0,
    ) -> None:
        self._start_s = max(START_TIMEOUT_S, attempt_s)
        self._containment = containment
        self._hosts = hosts
        self._contained: Contained | Led | None = None
        self._command = command
        self._folder = folder
        self._environ = environ
        self._log = log
        self._since = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it.

        Raises:
            AgentError: It cannot be started.
        """
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            if self._containment is None:
                self._process = subprocess.Popen(
                    self._command,
                    cwd=self._folder,
                    env=self._environ,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            else:
                self._contained = self._containment.start(
                    self._command,
                    hosts=self._hosts,
                    cwd=self._folder,
                    env=self._environ,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                self._process = self._contained.process
        except (OSError, ValueError) as error:
            raise AgentError(f"The service cannot be started: {error}.") from None
        finally:
            os.close(log)
        # It outlives this process if that is killed, and then ends the service.
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", 'read _; kill -9 "-$1"', "sh", str(self._process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    async def listening(self, host: str, ports: Sequence[int]) -> int:
        """Wait until it listens on one of these ports; return the port.

        Raises:
            AgentError: It ended, or listens at none of them in time.
            SandboxFailed: It cannot be contained.
        """
        if self._contained is not None:
            await self._contained.opened()
        places = " or ".join(str(port) for port in ports)
        loop = asyncio.get_running_loop()
        until = loop.time() + self._start_s
        with WAITS.on(f"the service to listen on port {places}"):
            while True:
                for port in ports:
                    if await self._listens(host, port):
                        return port
                if self.over():
                    raise AgentError(f"{self.ending()} before it listened.{self.tail()}")
                if loop.time() > until:
                    raise AgentError(
                        f"The service did not listen on port {places} within"
                        f" {self._start_s:g} s.{self.tail()}",
                        hint="If it needs longer, raise timeout_s under [run] in ratchet.toml.",
                    )
                await asyncio.sleep(POLL_INTERVAL_S)

    async def _listens(self, host: str, port: int) -> bool:
        if self._contained is None or not self.own_network:
            return await listens(host, port)
        connection = await self._contained.reached(port)
        if connection is not None:
            connection.close()
        return connection is not None

    @property
    def own_network(self) -> bool:
        """Whether its ports are its own; known once it has started."""
        return self._contained is not None and self._contained.own_network

    async def place(self, host: str, port: int) -> tuple[str, int]:
        """The host and port at which one of its ports is reached from here."""
        if self._contained is None or not self.own_network:
            return host, port
        return "127.0.0.1", await self._contained.published(port)

    def denied(self) -> tuple[Act, ...]:
        """What it was denied outside its own process since the last call."""
        return () if self._contained is None else self._contained.denied()

    async def release(self) -> None:
        """End the containment, once the process has ended."""
        if self._contained is not None:
            await self._contained.close()

    def over(self) -> bool:
        """Whether the service's process has ended."""
        return self._end() is not None

    def _end(self) -> os.waitid_result | None:
        """How its process ended; it is not reaped until `kill`, so that its id is not reused."""
        assert self._process is not None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    async def ends(self) -> bool:
        """Wait up to END_TIMEOUT_S for the process to end; return whether it did."""
        for _ in range(int(END_TIMEOUT_S / POLL_INTERVAL_S)):
            if self.over():
                return True
            await asyncio.sleep(POLL_INTERVAL_S)
        return self.over()

    def ending(self) -> str:
        """How the process ended, as the beginning of a sentence."""
        end = self._end()
        if end is None:
            return "The service was stopped"
        if end.si_code == os.CLD_EXITED:
            return f"The service ended with exit code {end.si_status}"
        return f"The service was killed by {signal.Signals(end.si_status).name}"

    def mark_log(self) -> None:
        """Mark the beginning of an attempt: `tail` returns only what is logged from now on."""
        with contextlib.suppress(OSError):
            size = self._log.stat().st_size
            if size > LOG_BYTES:
                os.truncate(self._log, 0)
                size = 0
            self._since = size

    def tail(self) -> str:
        """The last lines of the log since the mark, as a paragraph for an error message."""
        with contextlib.suppress(OSError), open(self._log, "rb") as file:
            file.seek(max(self._since, self._log.stat().st_size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace").strip()
            return f" Its last output:\n{text}" if text else ""
        return ""

    def kill(self) -> None:
        """End it and everything that it started that is still its descendant or in its group."""
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            self._guard = None
        if self._process is not None:
            below = processes(self._process.pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            for pid in below:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                self._process.wait()


async def listens(host: str, port: int) -> bool:
    """Whether something accepts connections at a port."""
    try:
        async with asyncio.timeout(1.0):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
