"""A local model in a process of its own: a crash of it never ends this process."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from importlib.util import find_spec
from typing import IO

import msgspec

from ratchet.models.engine import KEY_VARIABLE, STOP, EngineSettings
from ratchet.models.failure import ModelUnavailable
from ratchet.models.model_file import ModelFile, check_memory

SLOTS, CONTEXT = 4, 4096
"""Default number of slots, and of tokens of each."""

START_S = 120.0
"""How long loading a model may take, in seconds."""

STOP_S = 5.0
"""How long a model may take to end before it is killed, in seconds."""

LOG_LINES, LINE_BYTES = 12, 500
"""How much of the process's output is kept for an error message."""


class LocalModel:
    """Serves a model on loopback with the OpenAI API, in a process of its own.

    A context manager: the process ends with it, and soon after this process, if that is killed.

    Args:
        file: The model.
        port: Port to listen on; 0 for a free one.
        slots: Conversations at once; further requests wait.
        context: Tokens of each slot, prompt and answer together; at most what the model was
            trained for. llama.cpp rounds it up to a multiple of 256.
        threads: Threads that compute; by default one for every two cores.
        start_s: How long loading may take.
        require_key: Whether requests must carry `key`.

    Example:
        with LocalModel(find_model("smollm2", print)) as model:
            client = OpenAI(base_url=model.base_url, api_key=model.key)
    """

    def __init__(
        self,
        file: ModelFile,
        *,
        port: int = 0,
        slots: int = SLOTS,
        context: int | None = None,
        threads: int | None = None,
        start_s: float = START_S,
        require_key: bool = True,
    ) -> None:
        self.file = file
        trained = file.header.context or CONTEXT
        self.settings = EngineSettings(
            path=str(file.path),
            name=file.name,
            port=port,
            slots=slots,
            context=min(context or CONTEXT, trained),
            threads=threads or default_threads(),
        )
        self.key = secrets.token_hex(16) if require_key else ""
        self.base_url = ""
        """Base URL for OpenAI's libraries, once the model is loaded."""
        self._start_s = start_s
        self._process: subprocess.Popen[bytes] | None = None
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._reader: threading.Thread | None = None

    def __enter__(self) -> LocalModel:
        """Start the process and wait until the model is loaded.

        Raises:
            ModelUnavailable: The engine is not installed, the memory does not suffice, the port is
                taken, or the process ends or takes too long; its last output is in the message.
        """
        require_engine()
        check_memory(self.file, self.settings.slots * self.settings.context)
        check_port(self.settings.port)
        environ = {**os.environ, KEY_VARIABLE: self.key}
        self._process = process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "ratchet.models.engine",
                msgspec.json.encode(self.settings).decode(),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            start_new_session=True,  # a terminal's Ctrl-C must not reach it before its clients
        )
        assert process.stdout is not None
        assert process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(process.stderr,), daemon=True)
        self._reader.start()
        try:
            self.base_url = self._wait_until_loaded(process.stdout) + "/v1"
        except BaseException:
            self._end(at_once=True)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._end(at_once=False)

    @property
    def pid(self) -> int:
        """Process id; 0 before the start."""
        return 0 if self._process is None else self._process.pid

    def wait(self) -> None:
        """Wait until the process ends by itself, which it should not.

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
                        self._process.wait(STOP_S)
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
            f"The model {self.file.path.name} {how}."
            + (f" Its last output:\n{last}" if last else ""),
            hint="Is it a model that llama.cpp can run, and is the file whole?",
        )

    def _read(self, log: IO[bytes]) -> None:
        """Keep the last lines of the process's output, and never let it wait for a reader."""
        with log:
            while line := log.readline(LINE_BYTES):
                if text := line.decode("utf-8", "replace").strip():
                    self._log.append(text)

    def _end(self, *, at_once: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if not at_once and process.stdin is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                process.stdin.write(STOP)
                process.stdin.flush()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if self._reader is not None:
            self._reader.join(STOP_S)


def default_threads() -> int:
    """Number of threads that compute: one for every two cores that this process may use.

    llama.cpp's threads wait for one another without pause. Where the agent's own processes take a
    core from one of them, all stand still: on two busy cores an answer of 30 tokens took 13 s with
    two threads, and 0.5 s with one.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, cores // 2)


def require_engine() -> None:
    """Check that the package with the engine is installed.

    Raises:
        ModelUnavailable: It is not.
    """
    if find_spec("xllamacpp") is None:
        here = f"{platform.python_implementation()} {platform.python_version()}"
        raise ModelUnavailable(
            f"A local model needs the package xllamacpp, which {here} on"
            f" {platform.system()} {platform.machine()} does not have.",
            hint="Install it: pip install 'agent-ratchet[local]'. Where pip finds no wheel for this"
            " Python and CPU, serve the model with another program, such as llama-server or Ollama,"
            " and point OPENAI_BASE_URL or base_url to it.",
        )


def check_port(port: int) -> None:
    """Check that a port of this machine is free.

    Raises:
        ModelUnavailable: It is taken, or may not be used.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ModelUnavailable(
                f"The model cannot listen on 127.0.0.1, port {port}: {error.strerror}.",
                hint="Choose another with --port; 0 takes a free one.",
            ) from None
