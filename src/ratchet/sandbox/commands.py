"""Run a command in a sandbox: a repository's tests, a type checker."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ratchet.sandbox.inside import protocol
from ratchet.sandbox.launch import SandboxProcess, scrubbed_environment, start
from ratchet.sandbox.levels import resolve_level
from ratchet.sandbox.limits import Level, SandboxFailed, SandboxLimits
from ratchet.sandbox.view import file_view
from ratchet.types.wording import size_text

_GRACE_S = 2.0
_END_S = 5.0


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a command."""

    status: Literal["ended", "timed_out", "memory", "flooded", "crashed"]
    """ended: by itself, whatever its exit code. flooded: it started or wrote too much. crashed:
    the sandbox around it ended.
    """
    code: int | None
    """Its exit code, negative for a signal; None if it did not end by itself."""
    error: str = ""
    """Why it was ended, as a sentence; empty if it ended by itself."""
    output: str = ""
    """Head and tail of stdout and stderr together."""
    seconds: float = 0.0
    level: Level = "none"
    """The sandbox level at which it ran."""


def run(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    writable: Iterable[str | Path] = (),
    read: Iterable[str | Path] = (),
    hide: Iterable[str | Path] = (),
    limits: SandboxLimits | None = None,
    level: Level | str = "auto",
    unsafe: bool = False,
    network: bool = False,
) -> CommandResult:
    """Run a command to its end, without a shell. Blocks; await it in a thread.

    Head and tail of its output are retained, `limits.output_bytes` together; printing more does not
    end it. Its memory is measured, not limited beforehand, since runtimes such as JavaScript's
    reserve far more address space than they use.

    Args:
        command: Program and arguments.
        cwd: Its working folder, which it may read.
        environment: Variables in addition to the allowed ones; HOME and TMPDIR are the scratch
            folder.
        writable: Folders that it may write to.
        read: Additional folders and files that it may read.
        hide: Folders and files that it must not read, wherever they are.
        limits: Its limits; a file that it writes may have `scratch_bytes`.
        level: The sandbox level; `auto` for the strongest available.
        unsafe: Run with limits alone where no sandbox is available.
        network: It may use the network.

    Raises:
        SandboxUnavailable: No sandbox is available on this machine.
        SandboxFailed: The sandbox or the program in it cannot be started.
    """
    got = resolve_level(level, unsafe=unsafe)
    limits = limits or SandboxLimits()
    environ = scrubbed_environment(environment)
    programs = [p for p in environ.get("PATH", "").split(os.pathsep) if os.path.isdir(p)]
    view = file_view(read=[cwd, *programs, *read], write=writable, hide=hide, commands=True)
    config = {
        "mode": "command",
        "command": [os.fspath(word) for word in command],
        "cwd": os.path.realpath(cwd),
        "environment": environ,
        "limits": {
            "seconds": limits.seconds,
            "cpu": None if limits.cpu_seconds is None else max(1, int(-(-limits.cpu_seconds // 1))),
            "memory": limits.memory_bytes,
            "processes": limits.processes,
            "scratch": limits.scratch_bytes,
        },
    }
    open_to = "open" if network else "loopback" if got == "bubblewrap" else "none"
    begun = time.monotonic()
    started = start(
        config,
        level=got,
        view=view,
        scratch_bytes=limits.scratch_bytes,
        environ=environ,
        network=open_to,
    )
    printed = _HeadAndTail(limits.output_bytes)
    try:
        frame = _wait(started, printed, limits.seconds + _GRACE_S)
    finally:
        _end(started, printed)
    return _ended(frame, printed, limits, got, time.monotonic() - begun)


def _wait(
    started: SandboxProcess, printed: _HeadAndTail, seconds: float
) -> tuple[int, bytes] | None:
    """Read its output until it reports its end; None if it never does."""
    received = bytearray()
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as both:
        both.register(started.control, selectors.EVENT_READ)
        both.register(started.output, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in both.select(left):
                if key.fd == started.output:
                    if not printed.read(started.output):
                        both.unregister(started.output)
                    continue
                part = started.control.recv(65_536)
                received += part
                frame = _frame(received)
                if frame is not None or not part:
                    return frame
    return None


def _frame(received: bytearray) -> tuple[int, bytes] | None:
    if len(received) < protocol.HEADER.size:
        return None
    kind, length = protocol.HEADER.unpack_from(received)
    if len(received) < protocol.HEADER.size + length:
        return None
    return kind, bytes(received[protocol.HEADER.size : protocol.HEADER.size + length])


def _end(started: SandboxProcess, printed: _HeadAndTail) -> None:
    """End the sandbox and everything in it, and read the remaining output."""
    started.end()
    try:
        started.process.wait(_END_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.process.pid, signal.SIGKILL)
        started.process.wait()
    while printed.read(started.output, once=True):
        pass
    os.close(started.output)
    started.ended()


def _ended(
    frame: tuple[int, bytes] | None,
    printed: _HeadAndTail,
    limits: SandboxLimits,
    level: Level,
    seconds: float,
) -> CommandResult:
    def made(status: Any, code: int | None, error: str = "") -> CommandResult:
        return CommandResult(
            status=status,
            code=code,
            error=error,
            output=printed.text(),
            seconds=seconds,
            level=level,
        )

    if frame is not None and frame[0] == protocol.SETUP_FAILED:
        raise SandboxFailed(f"The command cannot be started: {frame[1].decode(errors='replace')}.")
    if (
        frame is None
        or frame[0] != protocol.REQUEST_ENDED
        or len(frame[1]) != protocol.END_LAYOUT.size
    ):
        if seconds >= limits.seconds:
            return made("timed_out", None, f"It did not finish within {limits.seconds:g} s.")
        return made("crashed", None, "The sandbox ended before the command did.")
    _, verdict, code, _, _ = protocol.END_LAYOUT.unpack(frame[1])
    if verdict == protocol.TIMED_OUT:
        return made("timed_out", None, f"It did not finish within {limits.seconds:g} s.")
    if verdict == protocol.TOO_MUCH_MEMORY:
        return made(
            "memory", None, f"It used more than {size_text(limits.memory_bytes)} of memory."
        )
    if verdict == protocol.TOO_MANY_PROCESSES:
        message = f"It ran more than {limits.processes} concurrent processes and threads."
        return made("flooded", None, message)
    if verdict == protocol.TOO_MUCH_SCRATCH:
        return made("flooded", None, f"It wrote more than {size_text(limits.scratch_bytes)}.")
    return made("ended", code)


class _HeadAndTail:
    """Retains the head and tail of a stream of any length."""

    def __init__(self, most: int) -> None:
        self._half = max(1, most // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def read(self, fd: int, *, once: bool = False) -> bool:
        """Read available bytes; return whether more may come (`once`: whether any came)."""
        try:
            chunk = os.read(fd, 65_536)
        except BlockingIOError:
            return not once
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if (over := len(self._tail) - self._half) > 0:
            self._dropped += over
            del self._tail[:over]
        return bool(chunk)

    def text(self) -> str:
        """The retained text, with the number of omitted bytes."""
        gap = f"\n… {self._dropped} bytes omitted …\n".encode() if self._dropped else b""
        return bytes(self._head + gap + self._tail).decode(errors="replace")
