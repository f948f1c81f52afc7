"""What the fake forges share: a server on loopback, faults, and a real bare git repository."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Answer = tuple[int, dict[str, str], Any]
"""Status, headers and body; a status of 0 closes the connection without a response."""


@dataclass
class Sent:
    """A request that was received."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


@dataclass
class Fault:
    """A response in place of the real one."""

    method: str
    part: str
    """A part of the path."""
    answer: Answer
    times: int = 1
    after: bool = False
    """The request takes effect before."""


class FakeForge:
    """A forge in a thread; subclasses answer.

    Args:
        git: The bare repository with the branches.
        token: The token that is accepted.
    """

    def __init__(self, git: Path, token: str = "secret-token-1") -> None:
        self.git = git
        self.token = token
        self.sent: list[Sent] = []
        self.violations: list[str] = []
        self.faults: list[Fault] = []
        self.before: Callable[[Sent], None] = lambda sent: None
        self._lock = threading.Lock()
        forge = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                data = self.rfile.read(length)
                parts = urlsplit(self.path)
                sent = Sent(
                    self.command,
                    parts.path,
                    dict(parse_qsl(parts.query)),
                    json.loads(data) if data else None,
                    {name.lower(): value for name, value in self.headers.items()},
                )
                forge.before(sent)
                with forge._lock:
                    status, headers, body = forge._received(sent)
                if status == 0:
                    self.close_connection = True
                    return
                encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
                if status == 204:
                    encoded = b""
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(encoded)))
                self.end_headers()
                self.wfile.write(encoded)

            do_GET = do_POST = do_PATCH = do_PUT = answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def fail(self, method: str, part: str, status: int, body: Any = None, **more: Any) -> None:
        """Answer the next requests to paths with `part` with an error."""
        headers = more.pop("headers", {})
        answer = (status, headers, {"message": "x"} if body is None else body)
        self.faults.append(Fault(method, part, answer, **more))

    @property
    def writes(self) -> list[str]:
        """The requests that change something, as METHOD PATH."""
        return [f"{sent.method} {sent.path}" for sent in self.sent if sent.method != "GET"]

    def answered(self, sent: Sent) -> Answer:
        raise NotImplementedError

    def _received(self, sent: Sent) -> Answer:
        self.sent.append(sent)
        for fault in self.faults:
            if fault.times and fault.method == sent.method and fault.part in sent.path:
                fault.times -= 1
                if fault.after:
                    self.answered(sent)
                return fault.answer
        return self.answered(sent)

    def tip(self, branch: str) -> str | None:
        """The tip of a branch of the repository."""
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"],
            cwd=self.git,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip() or None

    def ahead(self, base: str, head: str) -> bool:
        """Whether a branch has commits that another has not."""
        done = subprocess.run(
            ["git", "rev-list", "--count", f"{base}..{head}"],
            cwd=self.git,
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout) > 0


@dataclass
class Request:
    """A pull request of a fake forge."""

    number: int
    title: str
    body: str
    branch: str
    base: str
    head: str
    draft: bool = False
    state: str = "open"
    merged: bool = False
    labels: list[str] = field(default_factory=list)
    reviewers: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    fork: bool = False
