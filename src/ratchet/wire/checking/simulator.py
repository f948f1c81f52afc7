"""A simulated model on loopback, for a check: it stands for no model's abilities."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ratchet.wire.checking.simulated_answers import MODEL, answer
from ratchet.wire.checking.simulated_apis import dialect_of
from ratchet.wire.checking.simulated_embeddings import embeddings
from ratchet.wire.checking.simulated_ollama import about_models, as_line

MOST = 500
"""Requests of a run that are kept."""
SAME = 3
"""Requests with the same texts that are answered by a tool's call; then by a text."""


_PAGES = "/pages"
_PAGE = """\
<!doctype html>
<html><head><title>A simulated page</title></head>
<body><h1>A simulated page</h1><p>It stands for the pages that tools read.</p></body></html>
"""


class SimulatedModel:
    """The server, on a free port of loopback; a context manager."""

    def __init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        """Where it is reached, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def called(self) -> str:
        """The tool that it called last; empty where it called none since it was last asked."""
        called, self._server.called = self._server.called, ""
        return called

    def call_no_tools(self) -> None:
        """Answer with texts from now on, unless a tool is forced."""
        self._server.calls_tools = False

    def take_way(self, way: int) -> None:
        """Choose otherwise from now on, where several ways are open; 0 is the first."""
        self._server.way = way

    def taken(self) -> list[list[str]]:
        """The texts of each request since the last call, in order."""
        taken, self._server.requests = self._server.requests, []
        self._server.seen.clear()
        return taken

    def __enter__(self) -> SimulatedModel:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.requests: list[list[str]] = []
        self.calls_tools = True
        self.way = 0
        self.called = ""
        self.seen: Counter[tuple[str, ...]] = Counter()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing when a client goes away in the middle."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        told = about_models(self.path)
        if told is not None:
            self._send(told)
            return
        if self.path.startswith(f"{_PAGES}/"):
            self._send_page()
            return
        models = [{"id": MODEL, "object": "model", "created": 0, "owned_by": "ratchet"}]
        self._send({"object": "list", "data": models})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            body = json.loads(data)
        except ValueError:
            self._send({"error": {"message": "The body is no JSON."}}, 400)
            return
        dialect = dialect_of(self.path)
        if dialect is None:
            path = self.path.partition("?")[0]
            told = about_models(path)
            if told is not None:
                self._send(told)
            elif path.endswith("/count_tokens"):
                self._send({"input_tokens": 20})
            elif "embed" in path.lower():
                self._send(embeddings(path, body))
            else:
                self._send({"error": {"message": f"The simulator has no {self.path}."}}, 404)
            return
        address = f"http://127.0.0.1:{self.server.server_address[1]}{_PAGES}"
        asked = dialect.asked(body)._replace(way=self.server.way, address=address)
        if len(self.server.requests) < MOST:
            self.server.requests.append([text for text in asked.texts if text])
        self.server.seen[key := tuple(asked.texts)] += 1
        # An agent that hands the conversation on and back again would never end.
        around = self.server.seen[key] > SAME
        if (around or not self.server.calls_tools) and not asked.forced:
            asked = asked._replace(tools=())
        turn = answer(asked)
        self.server.called = turn.tool or self.server.called
        if body.get("stream", dialect.in_lines) or "stream" in dialect.ending:
            self._send_events(dialect.events(body, turn), in_lines=dialect.in_lines)
        else:
            self._send(dialect.whole(body, turn))

    def _send_page(self) -> None:
        data = _PAGE.encode()
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send(self, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_events(self, events: Iterator[tuple[str, Any]], *, in_lines: bool) -> None:
        kind = "application/x-ndjson" if in_lines else "text/event-stream"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        self.end_headers()
        for name, value in events:
            if in_lines:
                self.wfile.write(as_line(value))
                continue
            data = value if isinstance(value, str) else json.dumps(value)
            line = f"event: {name}\n" if name else ""
            self.wfile.write(f"{line}data: {data}\n\n".encode())
        self.close_connection = True
