"""Commands that outlive the server that started them; any later server finds them.

What a job tells is kept in a file of the project's state folder. The process holds a lock on that
file as long as it lives, so a job is never taken for another process with its number.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ratchet._command_answer import INTERRUPTED, VARIABLE, CommandAnswer
from ratchet._private_files import make_folder
from ratchet.observe.project_paths import STATE_NAME, prepare_state
from ratchet.server.command_process import STOP_TIMEOUT_S, OnLine, wait_for_end
from ratchet.types import Conflict

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW


class Job:
    """The newest command with a name in a project.

    Args:
        project: The project's folder.
        name: The tool that starts it.
    """

    def __init__(self, project: Path, name: str) -> None:
        self.project = project
        self.name = name
        self._file = project / STATE_NAME / "jobs" / f"{name}.jsonl"
        self._read = 0
        self.told = CommandAnswer()
        """What it has reported so far."""

    @property
    def noun(self) -> str:
        """The job's name in a sentence."""
        return {"improve": "improvement", "evaluate": "evaluation", "wire": "wiring"}[self.name]

    @property
    def exists(self) -> bool:
        """Whether one was ever started."""
        return self._file.exists()

    @property
    def running(self) -> bool:
        """Whether it is still running."""
        try:
            descriptor = os.open(self._file, os.O_RDONLY | _FLAGS)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def start(self, arguments: list[str]) -> None:
        """Start it; its progress and answer go to the file, and its output is discarded.

        Raises:
            Conflict: One is running.
        """
        prepare_state(self.project)
        make_folder(self._file.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | _FLAGS
        descriptor = os.open(self._file, flags, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(
                    f"{'A' if self.name == 'wire' else 'An'} {self.noun} is already running.",
                    hint=f"Wait for it with {self.name}_status, or stop it with"
                    f" {self.name}_cancel.",
                ) from None
            os.ftruncate(descriptor, 0)
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ratchet", *arguments],
                cwd=self.project,
                env={**os.environ, VARIABLE: str(descriptor)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(descriptor,),
            )
            started = {"pid": process.pid, "at": time.time(), "arguments": arguments}
            os.write(descriptor, (json.dumps({"started": started}) + "\n").encode())
        finally:
            os.close(descriptor)

    def refresh(self) -> None:
        """Read what it has reported since the last call."""
        with contextlib.suppress(FileNotFoundError), self._file.open("rb") as file:
            file.seek(self._read)
            data = file.read()
            self._read += len(data)
            self.told.feed(data)

    async def wait(self, seconds: float, on_line: OnLine | None = None) -> bool:
        """Wait for its end up to a time limit, and report progress; return whether it has ended."""
        return await wait_for_end(
            self.told, lambda: self.running, seconds, on_line, refresh=self.refresh
        )

    async def stop(self) -> None:
        """Interrupt the job, and wait until it has saved its work."""
        self.refresh()
        started = self.told.started
        if started is None or not self.running:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(started["pid"], signal.SIGINT)
        await self.wait(STOP_TIMEOUT_S)
        # Itself, if it does not end; or what it started and left in its group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(started["pid"], signal.SIGKILL)
        await self.wait(STOP_TIMEOUT_S)
        if not self.told.answered and self.told.error is None:
            # It was stopped before it could say so.
            self._note({"error": {"message": "Interrupted.", "code": INTERRUPTED}})
            self.refresh()

    def _note(self, body: dict[str, Any]) -> None:
        with self._file.open("ab") as file:
            file.write(f"\n{json.dumps(body)}\n".encode())  # a line may have been broken off
