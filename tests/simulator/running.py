"""The simulator on a free port of loopback: in a thread of this process, or in one of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import uvicorn

from tests.impatient import end_servers_at_once
from tests.simulator.server import Settings, Simulator

ROOT = Path(__file__).resolve().parents[2]


def config(app: Simulator) -> uvicorn.Config:
    """How uvicorn runs the simulator."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        backlog=4096,
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket whose connections send at once.

    asyncio asks for that itself, but not of sockets that it is handed: then the end of each answer
    would wait some 40 ms for the client to acknowledge its beginning.
    """
    listening = socket.create_server((host, port), backlog=4096)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


class Address:
    """Where a simulator is, and what it counted."""

    root: str
    """Without a path, such as `http://127.0.0.1:40123`."""

    @property
    def url(self) -> str:
        """Base URL for OpenAI clients."""
        return f"{self.root}/v1"

    def base_url(self, *, seed: object = None, label: str = "") -> str:
        """Base URL for clients whose calls are answered by another seed, or counted apart."""
        by_seed = "" if seed is None else f"/seed/{seed}"
        return f"{self.root}{by_seed}{f'/label/{label}' if label else ''}/v1"

    def counters(self, label: str = "", model: str = "simulated-task") -> dict[str, int]:
        """What was counted under a label of a model; empty before the first call."""
        found: dict[str, int] = self.admin("counters")["labels"].get(label, {}).get(model, {})
        return found

    def reset(self) -> None:
        """Begin to count anew."""
        self.admin("counters", "DELETE")

    def admin(self, what: str, method: str = "GET") -> dict[str, Any]:
        """Ask the simulator about itself."""
        request = urllib.request.Request(f"{self.root}/admin/{what}", method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


class SimulatorThread(Address):
    """A simulator in a thread of this process; a context manager.

    Args:
        settings: How it behaves.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        end_servers_at_once()
        self.app = Simulator(settings or Settings())
        self._socket = listen("127.0.0.1", 0)
        self.root = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(config(self.app))
        self._thread = threading.Thread(target=self._run, name="simulator", daemon=True)

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def __enter__(self) -> SimulatorThread:
        self._thread.start()  # its socket listens already: early callers wait in the backlog
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(5)  # a daemon: what a client left open does not hold up the tests
        self._socket.close()


class SimulatorProcess(Address):
    """A simulator in a process of its own; a context manager.

    Args:
        arguments: Of `python -m tests.simulator`, such as `"--latency-ms", "200"`.
    """

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tests.simulator", "--port", "0", "--json", *arguments]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"The simulator ended with {self._process.wait()}.")
        self.root = json.loads(line)["root"]

    def __enter__(self) -> SimulatorProcess:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:  # which closes its pipe
            self._process.terminate()
            self._process.wait(60)
