"""Commands of the server's project, for routes that need the project's own code.

An evaluator, an agent and a coach are code and settings of the repository. They run as a person's
own `ratchet` would, in a process beside the server: nothing of them is imported here, what they
print or break is their process', and a time limit ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ratchet.server.command_process import CommandProcess
from ratchet.server.http_problems import HttpProblem
from ratchet.types import RatchetError

MAX_PROCESSES = 2
"""Maximum number of concurrent processes; further requests wait."""

T = TypeVar("T")


class ProjectCommands:
    """Runs commands of one project.

    Args:
        folder: The project's folder.
        environ: Environment of the processes.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = dict(environ)
        self._free = asyncio.Semaphore(MAX_PROCESSES)

    async def run(self, arguments: Sequence[str], answers: type[T], *, seconds: float) -> T:
        """Run a command to its end; it is stopped when the caller is cancelled.

        Args:
            arguments: Of `ratchet`, with `--json`.
            answers: Type of what it prints.
            seconds: Its time limit.

        Raises:
            HttpProblem: It failed (422), or took longer (504).
        """
        async with self._free:
            process = CommandProcess(self._folder, list(arguments), self._environ)
            await process.start()
            try:
                ended = await process.wait(seconds)
            finally:
                await asyncio.shield(process.stop())
        if not ended:
            raise HttpProblem(504, f"It did not finish within {seconds:g} s, and was stopped.")
        try:
            printed, wrong = process.result()
        except RatchetError as error:
            raise HttpProblem(422, error.message) from None
        if wrong:
            raise HttpProblem(422, wrong)
        return _read(printed, answers)


def _read(printed: Any, answers: type[T]) -> T:
    try:
        return msgspec.convert(printed, answers)
    except msgspec.ValidationError as error:
        raise HttpProblem(422, f"The command printed something else: {error}.") from None
