"""Looks through new traces for problems while a server runs, and lets a coach read them."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

from ratchet.autopilot.problem_scan import READINGS, scan
from ratchet.autopilot.project import Project
from ratchet.server.background_loop import BackgroundLoop
from ratchet.server.http_problems import HttpProblem
from ratchet.server.project_commands import ProjectCommands
from ratchet.store import Store
from ratchet.store.problems import ScanPlace
from ratchet.types import LeaseLost, RatchetError, StoreError

log = logging.getLogger("ratchet")

EVERY_S = 60.0
"""Seconds between two looks."""


PAUSE_S = 5.0
"""Longest pause between two pages of traces."""

COACH_S = 3_600.0
"""Seconds that the coach may take in all."""


class _ServerStops(Exception):
    """The server stops: the next look goes on here."""


class ProblemScanner(BackgroundLoop):
    """Looks through new traces every minute. Servers of one store take turns.

    Args:
        store: The store.
        project: Folder of the project whose coach may read; None for no project.
        commands: Runs its commands.
    """

    def __init__(
        self, store: Store, project: Path | None = None, commands: ProjectCommands | None = None
    ) -> None:
        super().__init__("ratchet-problems")
        self._store = store
        self._project = project
        self._commands = commands

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not await self._pause(EVERY_S):
            try:
                await loop.run_in_executor(self._thread, self._look)
                if await loop.run_in_executor(self._thread, self._may_ask):
                    await self._ask_coach()
            except _ServerStops:
                return
            except LeaseLost:
                log.info("Another process looks for problems now.")
            except StoreError as error:
                log.warning("Looking for problems failed, and is tried again: %s", error)
            except Exception:
                log.exception("Looking for problems failed, and is tried again")

    def _look(self) -> None:
        began = time.monotonic()

        def pause(_: int) -> None:
            """Leave other work three quarters of the time; end soon when the server stops."""
            nonlocal began
            until = time.monotonic() + min(3 * (time.monotonic() - began), PAUSE_S)
            while time.monotonic() < until and not self._closing.is_set():
                time.sleep(0.05)
            if self._closing.is_set():
                raise _ServerStops
            began = time.monotonic()

        found = asyncio.run(scan(self._store, now=time.time(), on_page=pause))
        for problem in (*found.begun, *found.returned):
            log.info("Problem %s is %s: %s", problem.id, problem.state, problem.title)

    def _may_ask(self) -> bool:
        """Whether the project has a coach, and something that it may read or name."""
        from ratchet.autopilot.coach import coach_models
        from ratchet.autopilot.problem_readings import is_due

        if self._project is None or self._commands is None:
            return False
        try:
            models = coach_models(Project.find(self._project).config.coach)
        except RatchetError:  # a file that is being written; commands say what is wrong with it
            return False
        return bool(models) and is_due(self._store)

    async def _ask_coach(self) -> None:
        assert self._commands is not None
        now = ScanPlace(at=time.time())
        await asyncio.to_thread(self._store.problems.read, {}, READINGS, now)
        try:
            await self._commands.run(
                ["problems", "read", "--json"], dict[str, Any], seconds=COACH_S
            )
        except HttpProblem as problem:
            log.warning("The coach does not look at problems: %s", problem)
