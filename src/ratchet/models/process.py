"""The process that a model is served from: its crash does not end this process."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from typing import IO

import msgspec

from ratchet.models.engine import KEY_VARIABLE, STOP
from ratchet.models.failure import ModelUnavailable

STOP_TIMEOUT_S = 5.0
"""How long a model may take to end before it is killed, in seconds."""

LOG_LINES, LINE_BYTES = 12, 500
"""How much of the process's output is kept for an error message."""


class ModelProcess:
    """Starts and ends a process that serves a model.

    The process prints its URL as a line of JSON when the model is loaded, and serves until its
    standard input says `STOP` or ends.

    Args:
        module: Its function `main` is run, with the settings as the process's argument.
        title: The model's name in messages.
        start_s: How long loading may take.
        hint: What to do when it could not be loaded.
    """

    def __init__(self, module: str, title: str, *, start_s: float, hint: str) -> None:
        self._module, self._title, self._start_s, self._hint = module, title, start_s, hint
        self._process: subprocess.Popen[bytes] | None = None
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._reader: threading.Thread | None = None

    def start(self, settings: bytes, key: str) -> str:
        """Start the process and wait until the model is loaded; return the server's URL.

        Args:
            settings: As JSON.
            key: What requests must carry; empty for nothing.

        Raises:
            ModelUnavailable: The process ends or takes too long; its last output is in the message.
        """
        self._process = process = subprocess.Popen(
            # Not -m, which warns of a module that its package imports.
            [
                sys.executable,
                "-P",
                "-c",
                f"from {self._module} import main; main()",
                settings.decode(),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, KEY_VARIABLE: key},
            start_new_session=True,  # a terminal's Ctrl-C must not reach it before its clients
        )
        assert process.stdout is not None
        assert process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(process.stderr,), daemon=True)
        self._reader.start()
        try:
            return self._wait_until_loaded(process.stdout)
        except BaseException:
            self.end(at_once=True)
            raise

    @property
    def pid(self) -> int:
        """Process id; 0 before the start."""
        return 0 if self._process is None else self._process.pid

    def wait(self) -> None:
        """Wait until the process ends by itself, which should not happen.

        Raises:
            ModelUnavailable: Always; the message says how it ended.
        """
        assert self._process is not None
        self._process.wait()
        raise self._ended("ended")

    def _wait_until_loaded(self, ready: IO[bytes]) -> str:
        """The URL that the process prints."""
        until = time.monotonic() + self._start_s
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(ready, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                left = until - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise self._failure(f"did not load within {self._start_s:g} s")
                chunk = os.read(ready.fileno(), 4096)
                if not chunk:
                    assert self._process is not None
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self._process.wait(STOP_TIMEOUT_S)
                    raise self._ended("could not be loaded: its process ended")
                line += chunk
        return str(msgspec.json.decode(line)["url"])

    def _ended(self, how: str) -> ModelUnavailable:
        assert self._process is not None
        code = self._process.returncode
        if code is not None and code < 0:
            return self._failure(f"{how} by {signal.Signals(-code).name}")
        return self._failure(f"{how} with exit code {code}")

    def _failure(self, how: str) -> ModelUnavailable:
        if self._reader is not None:
            self._reader.join(0.5)
        last = "\n".join(self._log)
        return ModelUnavailable(
            f"The model {self._title} {how}." + (f" Its last output:\n{last}" if last else ""),
            hint=self._hint,
        )

    def _read(self, log: IO[bytes]) -> None:
        """Keep the last lines of the process's output, and never let the process wait for a
        reader."""
        with log:
            while line := log.readline(LINE_BYTES):
                if text := line.decode("utf-8", "replace").strip():
                    self._log.append(text)

    def end(self, *, at_once: bool = False) -> None:
        """End the process.

        Args:
            at_once: Do not ask it to end by itself first.
        """
        process, self._process = self._process, None
        if process is None:
            return
        if not at_once and process.stdin is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                process.stdin.write(STOP)
                process.stdin.flush()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT_S)
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if self._reader is not None:
            self._reader.join(STOP_TIMEOUT_S)
