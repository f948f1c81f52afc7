"""An upstream of the tests' own: raw sockets, and whatever a test has it do."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Seen:
    """A request as it arrived."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    """Names in lower case."""
    body: bytes
    raw: bytes = b""

    def header(self, name: str) -> str | None:
        """The value of a header, None when it is not there."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


@dataclass
class Wire:
    """The connection that a request came on."""

    socket: socket.socket
    kept: bool = True
    """Whether the next request may come on it."""

    def send(self, content: bytes) -> None:
        """Write at once."""
        self.socket.sendall(content)

    def wait_for_end(self, timeout_s: float = 10.0) -> bool:
        """Whether the other side hung up within so many seconds."""
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    def cut(self) -> None:
        """Close now."""
        self.kept = False
        self.socket.shutdown(socket.SHUT_RDWR)


@dataclass
class Events:
    """What has happened to an upstream."""

    asked: threading.Event = field(default_factory=threading.Event)
    """It has the request, and sent what it had to."""
    ended: threading.Event = field(default_factory=threading.Event)
    """The other side hung up."""


Script = Callable[[Seen, Wire], None]


@dataclass
class StubUpstream:
    """Answers as its `script` says, and remembers what it saw."""

    script: Script | None = None
    seen: list[Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Base URL, with a version."""
        return f"http://127.0.0.1:{self.port}/v1"

    def answers(self, body: Any, status: int = 200, **headers: str) -> None:
        """Have it answer each request with one body: JSON unless it is bytes."""
        self.script = lambda seen, wire: wire.send(reply(body, status, **headers))

    def streams(self, pieces: Iterable[bytes], **headers: str) -> None:
        """Have it answer each request with a stream of events."""
        kept = list(pieces)

        def script(seen: Seen, wire: Wire) -> None:
            wire.send(stream_head(**headers))
            for piece in kept:
                wire.send(chunk(piece))
            wire.send(chunk(b""))

        self.script = script

    def sends(self, *pieces: bytes, hangs: bool = False) -> Events:
        """Have it send bytes and hang up, or wait until the other side does."""
        events = Events()

        def script(seen: Seen, wire: Wire) -> None:
            for piece in pieces:
                wire.send(piece)
            events.asked.set()
            if not hangs:
                wire.cut()
            elif wire.wait_for_end():
                events.ended.set()

        self.script = script
        return events

    def close(self) -> None:
        """Hang up on everybody."""
        # A descriptor closed under a thread that is about to accept may be another server's by
        # then, whose connections that thread would take: it is woken first.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()
        for one in list(self._open):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other side has hung up already

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        wire = Wire(connection)
        try:
            while wire.kept:
                seen = read_request(connection)
                if seen is None:
                    return
                self.seen.append(seen)
                assert self.script is not None, "the test has no script"
                self.script(seen, wire)
                connection.settimeout(None)
        except OSError:
            pass
        finally:
            connection.close()
            self._open.discard(connection)


def read_request(connection: socket.socket) -> Seen | None:
    """The next request of a connection, None when it ended."""
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(65536)
        if not more:
            return None
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = [(k.lower(), v.strip()) for k, _, v in (line.partition(":") for line in lines)]
    method, target, _ = first.split(" ")
    length = int(next((value for key, value in headers if key == "content-length"), "0"))
    while len(body) < length:
        more = connection.recv(65536)
        if not more:
            return None
        body += more
    return Seen(method, target, headers, body, received)


def reply(body: Any, status: int = 200, **headers: str) -> bytes:
    """An answer in one piece."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    said = {"content-type": "application/json", "content-length": str(len(content))}
    said.update({name.replace("_", "-"): value for name, value in headers.items()})
    lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    return f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode("latin-1") + content


def stream_head(**headers: str) -> bytes:
    """The head of a stream of events."""
    said = {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"}
    said.update({name.replace("_", "-"): value for name, value in headers.items()})
    lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    return f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode()


def chunk(content: bytes) -> bytes:
    """A chunk of a chunked body; an empty one ends it."""
    return b"%x\r\n%b\r\n" % (len(content), content)


def event(data: Any, name: str = "") -> bytes:
    """A server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()
