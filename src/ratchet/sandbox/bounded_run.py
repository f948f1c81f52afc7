"""Runs a trusted program to its end within a time limit, and ends it with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


def run_bounded(
    command: Sequence[str],
    *,
    timeout_s: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program without input, in a session of its own, so that none can ask at a terminal.

    Args:
        command: The program and its arguments.
        timeout_s: Seconds it may take.
        cwd: Its folder; this process's by default.
        env: Its environment; this process's by default.

    Raises:
        OSError: It cannot be started.
        subprocess.TimeoutExpired: It took too long.
    """
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except BaseException:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(list(command), process.returncode, output, errors)
