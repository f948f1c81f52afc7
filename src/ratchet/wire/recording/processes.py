"""Runs a command or a service to its end, and ends everything that it leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import msgspec

from ratchet.sandbox.acts import Act, Watch
from ratchet.wire.recording.contained import ContainedWatch

MAX_OUTPUT_BYTES = 1_000_000
"""Number of bytes kept from the end of an output."""
TELL_EVERY_S = 15.0
POLL_INTERVAL_S = 0.05
END_TIMEOUT_S = 3.0
"""Seconds that processes are given to end by themselves."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a command or a service ended."""

    code: int | None = None
    """None if it did not end by itself."""
    timed_out: bool = False
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    problem: str = ""
    """Why it could not be started or reached, as a sentence."""
    response: str = ""
    status: int = 0
    acts: tuple[Act, ...] = ()
    """The acts seen in its system calls."""
    blind: str = ""
    """Why system calls were not seen, as a clause; empty if they were."""

    @property
    def went_well(self) -> bool:
        """Whether it succeeded."""
        answered = self.code == 0 or 200 <= self.status < 400
        return answered and not self.problem and not self.timed_out

    def with_answer(self, answer: Ended, problem: str) -> Ended:
        """A copy with a service's answer."""
        return msgspec.structs.replace(
            self,
            response=answer.response,
            status=answer.status,
            problem=self.problem or answer.problem or problem,
        )


class Process:
    """A command in a process group of its own, whose output is read.

    Args:
        watch: What starts it and sees what it does.
        argv: Program and arguments.
        cwd: Its working folder.
        environ: Its environment.
        stdin: What it reads, before the end of its input.
        mark: A text in the environment of all that it starts.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(
        self,
        watch: Watch | ContainedWatch,
        argv: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        mark: str,
        stdin: str | None = None,
    ) -> None:
        self._mark = mark
        self._output = _Tail(), _Tail()
        lines = b"" if stdin is None else (stdin.rstrip("\n") + "\n").encode()
        self._readers: list[threading.Thread] = []
        self._watch = watch
        self.process = watch.start(
            tuple(argv),
            cwd=cwd,
            env=dict(environ),
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        assert self.process.stdin is not None
        self._read(self.process.stdout, self._output[0])
        self._read(self.process.stderr, self._output[1])
        thread = threading.Thread(target=_feed, args=(self.process.stdin, lines), daemon=True)
        thread.start()

    def _read(self, stream: IO[bytes], into: _Tail) -> None:
        thread = threading.Thread(target=into.follow, args=(stream,), daemon=True)
        thread.start()
        self._readers.append(thread)

    def wait(self, timeout_s: float, still_runs: Callable[[float], None]) -> int | None:
        """Wait for the program to end; None at the time limit.

        Args:
            timeout_s: Seconds that it may take.
            still_runs: Told the seconds so far, now and then.
        """
        started = time.monotonic()
        while (left := started + timeout_s - time.monotonic()) > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.process.wait(min(left, TELL_EVERY_S))
            still_runs(time.monotonic() - started)
        return None

    def end(self) -> None:
        """End it and everything that it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            left = _marked(self._mark)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            if self._gone():
                break
        for reader in self._readers:
            reader.join(END_TIMEOUT_S)
        self._acts = self._watch.acts()
        self._failed, self._blind = self._watch.failed, self._watch.blind
        self._watch.close()

    def _gone(self) -> bool:
        until = time.monotonic() + END_TIMEOUT_S
        while time.monotonic() < until:
            ended = self.process.poll() is not None
            if ended and not _marked(self._mark):
                return True
            time.sleep(0.02)
        return False

    def reachable(self, url: str) -> str:
        """The program's URL as reached from this machine; empty while nothing listens there."""
        place = urlsplit(url)
        port = place.port or (443 if place.scheme == "https" else 80)
        if isinstance(self._watch, ContainedWatch):
            port = self._watch.port(port)
            return place._replace(netloc=f"127.0.0.1:{port}").geturl() if port else ""
        return url if answers(url) else ""

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self.process.poll()

    def ended(self, *, seconds: float, code: int | None = None, timed_out: bool = False) -> Ended:
        """Everything known about the program, once it has ended."""
        return Ended(
            code=127 if self._failed else code,
            timed_out=timed_out,
            stdout=self._output[0].text(),
            stderr=self._output[1].text(),
            seconds=seconds,
            problem=f"It could not be started: {self._failed}." if self._failed else "",
            acts=self._acts,
            blind=self._blind,
        )


def wait_until(
    ready: Callable[[], object], timeout_s: float, say: Callable[[str], None], what: str
) -> None:
    """Wait until a condition holds, or for at most this long.

    Args:
        ready: Whether it is so, or waiting has become pointless.
        timeout_s: Seconds to wait.
        say: Told what is waited for.
        what: What that is, for people.
    """
    started = reported = time.monotonic()
    while not ready() and time.monotonic() - started < timeout_s:
        if time.monotonic() - reported >= TELL_EVERY_S:
            reported = time.monotonic()
            say(f"Waiting for {what}, {reported - started:.0f} s so far.")
        time.sleep(POLL_INTERVAL_S)


def answers(url: str) -> bool:
    """Whether something answers at a URL's port now."""
    place = urlsplit(url)
    port = place.port or (443 if place.scheme == "https" else 80)
    with contextlib.suppress(OSError):
        socket.create_connection((place.hostname or "127.0.0.1", port), 1.0).close()
        return True
    return False


class _Tail:
    """The last part of an output."""

    def __init__(self) -> None:
        self._parts = bytearray()
        self._lock = threading.Lock()

    def follow(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(stream.fileno(), 65_536):
                with self._lock:
                    self._parts += part
                    del self._parts[:-MAX_OUTPUT_BYTES]

    def text(self) -> str:
        with self._lock:
            return self._parts.decode("utf-8", "replace").replace("\r\n", "\n")


def _feed(stream: IO[bytes], lines: bytes) -> None:
    with contextlib.suppress(OSError):
        if lines:
            stream.write(lines)
            stream.flush()
    with contextlib.suppress(OSError):
        stream.close()


def _marked(mark: str) -> list[int]:
    """Processes whose environment names the recording, whatever group they are in."""
    return list(_marked_on_linux(mark.encode()))


def _marked_on_linux(mark: bytes) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                with contextlib.suppress(OSError):
                    environ = Path("/proc", name, "environ").read_bytes()
                    state = Path("/proc", name, "stat").read_bytes().rpartition(b") ")[2][:1]
                    if mark in environ and state != b"Z":
                        yield int(name)
