"""Runs a server's autopilot in a process of its own, so that learning delays no requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence

_log = logging.getLogger("ratchet")

MIN_RESTART_PAUSE_S, MAX_RESTART_PAUSE_S = 1.0, 60.0
"""Shortest and longest pause before an ended process is restarted."""

STEADY_S = 300.0
"""Seconds after which a process counts as steady, which resets the pause."""

STOP_TIMEOUT_S = 20.0
"""Seconds that the process has to stop before it is killed."""


class AutopilotProcess:
    """Starts the autopilot with the server, restarts it whenever it ends, and stops it at the end.

    Its standard input is a pipe that nobody writes to: when the server is gone, even by a kill, the
    pipe ends, and the autopilot stops.

    Args:
        command: The command line.
        environ: The environment.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._command = tuple(command)
        self._environ = dict(environ)
        self._process: Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process, and keep it running."""
        self._keeper = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Stop the process cleanly; kill it if it does not stop."""
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = MIN_RESTART_PAUSE_S
        while True:
            began = loop.time()
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=PIPE, env=self._environ
            )
            status = await self._process.wait()
            if loop.time() - began > STEADY_S:
                pause_s = MIN_RESTART_PAUSE_S
            _log.warning("The autopilot ended with %s; it restarts in %g s.", status, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(MAX_RESTART_PAUSE_S, 2 * pause_s)
