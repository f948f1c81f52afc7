"""What a program does beyond its own process, seen in its system calls: hosts, programs, files."""

from __future__ import annotations

import json
import marshal
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ratchet.sandbox.inside import seccomp
from ratchet.sandbox.inside.protocol import MARSHAL

ActKind = Literal["connect", "socket", "program", "write", "delete", "signal", "process", "lookup"]
"""connect: a connection or a datagram to a host and port. socket: a unix socket. program: a
program was started. write: a file or folder was opened for writing, created or changed. delete:
a file or folder was removed or renamed. signal: to another process. process: control over
another process or the machine. lookup: a host's name was looked up, but not connected to."""

ActEnd = Literal["allowed", "denied", "copied"]
"""allowed: it was done. denied: it failed. copied: it was done to a copy, which is discarded."""

BOOT = Path(__file__).parent / "inside" / "boot.py"


class Act(msgspec.Struct, frozen=True):
    """Something that a program did beyond its own process, or tried to."""

    kind: ActKind
    subject: str
    """A host's name or address, a path without symbolic links, a process id, or a system call."""
    port: int = 0
    """Port of a host."""
    end: ActEnd = "allowed"
    count: int = 1
    """How many times it was done."""


class ActReader:
    """The acts of a program, in a file that its keeper writes."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._at = 0
        self._acts: dict[tuple[str, str, int, str], Act] = {}
        self.blind = ""
        """Why acts are not seen; empty if they are."""
        self.failed = ""
        """Why the program was not started; empty if it was."""

    def fileno(self) -> int:
        """The file's descriptor, for the keeper."""
        return self._file.fileno()

    def acts(self) -> tuple[Act, ...]:
        """The acts so far, in the order in which each first occurred."""
        self._read()
        return tuple(self._acts.values())

    def taken(self) -> tuple[Act, ...]:
        """The acts since they were last taken."""
        acts = self.acts()
        self._acts.clear()
        return acts

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self) -> None:
        # At a position of its own: the keeper's moves with what it writes.
        while part := os.pread(self.fileno(), 1 << 20, self._at):
            lines, newline, _ = part.rpartition(b"\n")
            if not newline:
                return
            self._at += len(lines) + 1
            for line in lines.splitlines():
                self._add(json.loads(line))

    def _add(self, row: list[Any]) -> None:
        if row[0] == "blind":
            self.blind = row[1]
        elif row[0] == "failed":
            self.failed = row[1]
        else:
            act = Act(*row[1:])
            key = (act.kind, act.subject, act.port, act.end)
            before = self._acts.get(key)
            count = act.count + (before.count if before else 0)
            self._acts[key] = msgspec.structs.replace(act, count=count)


class Watch:
    """Watches a program and everything that it starts, and denies them nothing.

    Programs in any language are watched in the same way, by a filter of their system calls. It
    lets no program gain privileges (`sudo` refuses). What the program leaves running ends with it.
    """

    def __init__(self) -> None:
        self._reader = ActReader()
        self._blind = "" if seccomp.available() else "this system has no system call filter"

    def start(
        self,
        command: Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        **options: Any,
    ) -> subprocess.Popen[bytes]:
        """Start the program; the returned process ends with the program's exit status or signal.

        Args:
            command: Program and arguments.
            cwd: Its working folder.
            env: Its whole environment; that of this process when left out.
            pass_fds: Descriptors that it inherits.
            options: As of `subprocess.Popen`.

        Raises:
            OSError: The watcher cannot be started. Whether the program itself was, `failed` tells.
        """
        environ = dict(os.environ if env is None else env)
        if self._blind:
            return subprocess.Popen(command, cwd=cwd, env=environ, pass_fds=pass_fds, **options)
        config = {
            "mode": "watch",
            "command": [os.fspath(word) for word in command],
            "cwd": None if cwd is None else os.fspath(cwd),
            "environment": environ,
            "log": self._reader.fileno(),
            "descriptors": list(pass_fds),
        }
        return keeper_process(config, [*pass_fds, self._reader.fileno()], **options)

    @property
    def blind(self) -> str:
        """Why acts are not seen, as a clause; empty if they are."""
        self._reader.acts()
        return self._blind or self._reader.blind

    @property
    def failed(self) -> str:
        """Why the program was not started, once its process has ended; empty if it was."""
        self._reader.acts()
        return self._reader.failed

    def acts(self) -> tuple[Act, ...]:
        """Its acts so far, in the order in which each first occurred."""
        return self._reader.acts()

    def close(self) -> None:
        """Clear the recorded acts."""
        self._reader.close()


def keeper_process(
    config: Mapping[str, Any],
    pass_fds: Sequence[int],
    *,
    control: int = -1,
    before: Sequence[str] = (),
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Start a keeper (`inside.keeper`) with its configuration.

    Args:
        config: As `inside.entry` reads it.
        pass_fds: Descriptors that it gets.
        control: That of its control socket.
        before: The start of the command line, which runs the rest.
        options: As of `subprocess.Popen`.

    Raises:
        OSError: It cannot be started.
    """
    with tempfile.TemporaryFile() as file:
        file.write(marshal.dumps(dict(config), MARSHAL))
        file.seek(0)
        words = [*before, sys.executable, "-s", "-P", "-S", "-B", str(BOOT)]
        words += [str(control), str(file.fileno())]
        return subprocess.Popen(
            words,
            env={"PYTHONUTF8": "1"},
            pass_fds=[*pass_fds, file.fileno()],
            **options,
        )
