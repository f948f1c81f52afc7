"""Runs a command to its end or its time limit."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path

from ratchet.sandbox.acts import Watch
from ratchet.wire.recording.contained import ContainedWatch
from ratchet.wire.recording.processes import Ended, Process
from ratchet.wire.recording.recording import CommandRun
from ratchet.wire.recording.surroundings import Surroundings


def run_command(
    run: CommandRun,
    watch: Watch | ContainedWatch,
    root: Path,
    around: Surroundings,
    folder: Path,
    say: Callable[[str], None],
    timeout_s: float,
) -> Ended:
    """Run a command in the repository.

    Args:
        run: The command.
        watch: What starts it and sees what it does.
        root: Its working folder.
        around: Its environment.
        folder: Of the recording; named in the environment of all that the command starts.
        say: Told what is waited for.
        timeout_s: Seconds that it may take.
    """
    started = time.perf_counter()
    try:
        process = Process(
            watch,
            run.argv,
            cwd=root,
            environ=around.variables,
            mark=str(folder),
            stdin=run.stdin,
            terminal=run.terminal,
        )
    except OSError as error:
        problem = f"{run.argv[0]} cannot be started: {error.strerror or error}."
        return Ended(code=127, problem=problem)
    try:
        code = process.wait(timeout_s, say, shlex.join(run.argv))
        seconds = time.perf_counter() - started
    finally:
        process.end()
    return process.ended(seconds=seconds, code=code, timed_out=code is None)
