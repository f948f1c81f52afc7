"""Fixtures of the room: a server that answers what a test scripts, and clients of both kinds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest

import ratchet

Script = Callable[[BaseHTTPRequestHandler], None]


class Seen(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class ScriptedServer:
    """Answers each request by the next step of a script, and the last step from then on."""

    def __init__(self, *steps: Script) -> None:
        self.seen: list[Seen] = []
        self._steps = list(steps)
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _do(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                server.seen.append(Seen(self.command, self.path, headers, body))
                step = server._steps.pop(0) if len(server._steps) > 1 else server._steps[0]
                step(self)

            do_GET = do_POST = do_PUT = _do

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def says(status: int, body: bytes | str, **headers: str) -> Script:
    """A step that answers."""
    content = body.encode() if isinstance(body, str) else body

    def step(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        given = {"content-type": "application/json", **headers}
        for name, value in given.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return step


def problem(status: int, detail: str, **headers: str) -> Script:
    """A step that answers with a problem."""
    return says(
        status, f'{{"detail": "{detail}"}}', content_type="application/problem+json", **headers
    )


def hangs_up(handler: BaseHTTPRequestHandler) -> None:
    """A step that answers nothing."""
    handler.close_connection = True


def breaks_off(handler: BaseHTTPRequestHandler) -> None:
    """A step that ends in the middle of its answer."""
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"counts"')
    handler.close_connection = True


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedServer]]:
    """Starts scripted servers."""
    started: list[ScriptedServer] = []

    def start(*steps: Script) -> ScriptedServer:
        started.append(ScriptedServer(*steps))
        return started[-1]

    yield start
    for server in started:
        server.stop()


Call = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Call:
    """Calls a method of a fresh client of either kind: `call(url, "rollouts.counts", ...)`."""

    def sync(url: str, method: str, *args: Any, key: Any = None, **options: Any) -> Any:
        timing = {k: options.pop(k) for k in ("patience_s", "timeout_s") if k in options}
        with ratchet.Client(url, key, **timing) as client:
            room, name = method.split(".")
            return getattr(getattr(client, room), name)(*args, **options)

    def awaited(url: str, method: str, *args: Any, key: Any = None, **options: Any) -> Any:
        timing = {k: options.pop(k) for k in ("patience_s", "timeout_s") if k in options}

        async def main() -> Any:
            async with ratchet.AsyncClient(url, key, **timing) as client:
                room, name = method.split(".")
                return await getattr(getattr(client, room), name)(*args, **options)

        return asyncio.run(main())

    return sync if request.param == "sync" else awaited
