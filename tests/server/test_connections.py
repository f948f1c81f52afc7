"""Connections whose clients send endless heads, send nothing, or are too many."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from urllib.parse import urlsplit

import pytest

from ratchet.server.api import health
from ratchet.server.openapi import describe
from tests.serving import RunningServer

PROTOCOL = "ratchet.server.http_protocol"
GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED = (
    b"POST /v1/rollouts HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


@contextmanager
def connected(server: RunningServer) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0)) as raw:
        raw.settimeout(10)
        yield raw


def status(raw: socket.socket) -> int:
    """Read a whole answer, which may come in pieces; its status."""
    answer = HTTPResponse(raw)
    answer.begin()
    answer.read()
    return answer.status


def flood(raw: socket.socket, piece: bytes, most: int = 4_000_000) -> bytes:
    """Send a piece again and again until the server answers or hangs up; its answer."""
    sent = 0
    try:
        while sent < most:
            raw.sendall(piece)
            sent += len(piece)
    except OSError:
        pass
    answer = b""
    try:
        while more := raw.recv(4096):
            answer += more
    except ConnectionResetError:
        pass
    except TimeoutError:
        raise AssertionError("The server takes as much as it is sent.") from None
    return answer


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"", b"x" * 1_000),
        (b"GET /", b"x" * 1_000),
        (GET, b"a: " + b"b" * 1_000 + b"\r\n"),
        (GET + b"a: ", b"b" * 1_000),
        (GET, b"c" * 1_000),
        (CHUNKED + b"0\r\n", b"trailer: " + b"b" * 1_000 + b"\r\n"),
        (CHUNKED + b"0\r\ntrailer: ", b"b" * 1_000),
        (CHUNKED + b"2;extension=", b"b" * 1_000),
    ],
    ids=["line", "path", "headers", "value", "name", "trailers", "trailer", "extension"],
)
def test_a_head_without_end_is_cut_off(server: RunningServer, begin: bytes, piece: bytes) -> None:
    with connected(server) as raw:
        raw.sendall(begin)
        answer = flood(raw, piece)
    assert not answer or answer.split()[1] in (b"400", b"413", b"431")


def test_a_body_that_goes_on_after_its_answer_is_not_read(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{PROTOCOL}.LINGER_S", 0.2)
    head = b"POST /v1/rollouts HTTP/1.1\r\nhost: localhost\r\ncontent-length: 400000000\r\n\r\n"
    with connected(server) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        raw.sendall(head)
        assert status(raw) == 413
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 400_000_000:
                sent += raw.send(b"x" * 65_536)
    assert sent < 20_000_000  # what the system holds of it


@pytest.mark.parametrize("begin", [b"", b"\r\n", GET, GET + b"\r\n", GET + b"\r\n\r\n"])
def test_a_head_that_does_not_come_is_given_up(
    server: RunningServer, begin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{PROTOCOL}.HEAD_S", 0.2)
    with connected(server) as raw:
        raw.sendall(begin)
        if begin.startswith(GET + b"\r\n"):
            assert status(raw) == 200
            raw.sendall(b"\r\n")  # belongs to no request, and yet is a sign of life
        answer = b""
        while more := raw.recv(4096):
            answer += more
    assert answer.startswith(b"HTTP/1.1 408")


def test_idle_connections_give_way_to_new_ones(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{PROTOCOL}.MAX_CONNECTIONS", 20)
    with connected(server) as oldest:
        oldest.sendall(GET + b"\r\n")
        assert status(oldest) == 200
        idle = [socket.create_connection(oldest.getpeername()) for _ in range(40)]
        assert oldest.recv(4096) == b""
        with connected(server) as newest:
            newest.sendall(GET + b"\r\n")
            assert status(newest) == 200
        for each in idle:
            each.close()


def test_the_description_is_built_once(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []
    counted: Callable[..., object] = lambda routes: built.append(1) or describe(routes)  # noqa: E731
    monkeypatch.setattr(health, "describe", counted)
    health._description.cache_clear()
    with server.client() as http:
        first, second = (http.get("/openapi.json") for _ in range(2))
    assert first.json()["openapi"] == second.json()["openapi"] == "3.1.0"
    assert len(built) == 1
