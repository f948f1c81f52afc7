"""Runs the command contained, with the simulated model: nothing that it does is real."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from ratchet.sandbox.acts import Act
from ratchet.sandbox.containment import AgentContainment, Allowance, contained_level

CLOSE_TIMEOUT_S = 20.0


class ContainedWatch:
    """Starts a program contained, with an event loop of its own for its connections.

    Args:
        root: The project's folder.
        hosts: What it may reach.
        writable: Folders that it really writes to.
        absent: Files and folders that it starts without.

    Raises:
        SandboxUnavailable: This machine cannot contain it.
    """

    blind = ""
    contains = True

    def __init__(
        self,
        root: Path,
        *,
        hosts: Sequence[tuple[str, int]],
        writable: Sequence[Path],
        absent: Sequence[str] = (),
    ) -> None:
        self._root = root
        self._absent = absent
        self._hosts = hosts
        self._writable = writable
        contained_level("auto")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._ports: dict[int, int] = {}

    def start(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start the program.

        Raises:
            SandboxFailed: It cannot be contained.
            OSError: Its keeper cannot be started.
        """
        # Without a network, and with copies of files, any program is as harmless as this one.
        containment = AgentContainment(
            Allowance(absent=tuple(self._absent)),
            root=self._root,
            writable=self._writable,
            rehearses=True,
        )
        self._contained = containment.start(command, hosts=self._hosts, cwd=cwd, env=env, **options)
        self._thread.start()
        self._run(self._contained.opened())
        return self._contained.process

    def port(self, port: int) -> int:
        """The local port that leads to a port of the program; 0 while nothing listens there."""
        if port not in self._ports:
            connection = self._run(self._contained.reached(port))
            if connection is None:
                return 0
            connection.close()
            self._ports[port] = self._run(self._contained.published(port))
        return self._ports[port]

    @property
    def failed(self) -> str:
        """Why the program was not started, once its process has ended; empty if it was."""
        return self._contained.failed

    def acts(self) -> tuple[Act, ...]:
        """What it tried to do beyond its own process, and the programs that it started."""
        return self._contained.denied()

    def close(self) -> None:
        """End the program, and the services that it may reach."""
        self._run(self._contained.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_TIMEOUT_S)
        self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(CLOSE_TIMEOUT_S)
