"""Scratch: the file through which an agent's own child processes find their binding."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import msgspec

from ratchet.bind import BINDING_VARIABLE, Binding
from ratchet.observe import BLOCKED_SUFFIX
from ratchet.run.attempt import blocked
from ratchet.run.messages import binding_file_name
from ratchet.types import Outcome


class BindingFile:
    """This process's file in a folder; used as `with Scratch(folder) as scratch`."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / binding_file_name(os.getpid())
        self._blocked = self._path.with_name(self._path.name + BLOCKED_SUFFIX)

    def __enter__(self) -> BindingFile:
        return self

    def publish(self, binding: Binding) -> None:
        """Make child processes started from now on inherit this binding."""
        try:
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(msgspec.json.encode(binding))
            os.replace(file.name, self._path)
        except OSError as error:
            print(
                f"ratchet: child processes will not inherit the candidate: {error}", file=sys.stderr
            )
            self._path.unlink(missing_ok=True)
        # Even without the file it tells child processes that they are part of a rollout.
        os.environ[BINDING_VARIABLE] = str(self._path)

    def judge(self, outcome: Outcome) -> Outcome:
        """The outcome, or an inconclusive one when a child process called a blocked tool."""
        try:
            tool = self._blocked.read_text()
            self._blocked.unlink()
        except OSError:
            return outcome
        return msgspec.structs.replace(
            outcome, status="inconclusive", output=None, error=blocked(tool), scores=()
        )

    def __exit__(self, *_: object) -> None:
        for path in (self._path, self._blocked):
            path.unlink(missing_ok=True)
