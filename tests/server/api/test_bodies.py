"""Bodies, addresses and methods that nobody should send."""

from __future__ import annotations

import gzip
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from ratchet.server.limits import ServerLimits
from ratchet.server.serve import ServeSettings
from tests.serving import RunningServer

JSON = {"content-type": "application/json"}


def send(server: RunningServer, content: bytes, **headers: str) -> Any:
    with server.client() as http:
        return http.post("/v1/rollouts", content=content, headers={**JSON, **headers})


def check(answer: Any, status: int, words: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert words in problem["detail"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"rollouts": [{"input": "', "not JSON"),
        (b'{"rollouts": [{"input": "\xff\xfe"}]}', "UTF-8"),
        (b'{"rollouts":[{"input":' + b"[" * 100_000, "nested too deeply"),
    ],
    ids=["empty", "half", "cut", "not UTF-8", "deep"],
)
def test_a_body_that_is_no_json_is_refused(
    server: RunningServer, content: bytes, words: str
) -> None:
    check(send(server, content), 400, words)


def test_deep_input_is_taken_or_refused_and_never_breaks_the_store(server: RunningServer) -> None:
    for depth in (50, 200, 400, 600, 800, 950):
        inner = b"[" * depth + b"]" * depth
        body = b'{"rollouts":[{"id":"d%d","input":%s}]}' % (depth, inner)
        answer = send(server, body)
        assert answer.status_code in (200, 400), answer.text
    with server.client() as http:
        assert http.get("/v1/rollouts").status_code == 200


def test_a_body_past_the_limit_is_refused(serving: Any, sqlite_url: str) -> None:
    server = serving(sqlite_url, ServeSettings(port=0, limits=ServerLimits(body_bytes=10_000)))
    check(send(server, b" " * 10_001), 413, "10000")

    def pieces() -> Any:
        for _ in range(11):
            yield b" " * 1_000

    with server.client() as http:
        answer = http.post("/v1/rollouts", content=pieces(), headers=JSON)
    check(answer, 413, "10000")
    check(send(server, gzip.compress(b" " * 10_001), **{"content-encoding": "gzip"}), 413, "10000")


def test_a_compressed_body_is_understood_and_a_damaged_one_refused(server: RunningServer) -> None:
    packed = gzip.compress(b'{"rollouts":[{"id":"z","input":1}]}')
    assert send(server, packed, **{"content-encoding": "gzip"}).json()["created"] == 1
    check(send(server, packed[:-9], **{"content-encoding": "gzip"}), 400, "too early")
    check(send(server, b"zzz", **{"content-encoding": "gzip"}), 400, "not valid gzip data")
    check(send(server, packed, **{"content-encoding": "br"}), 415, "'br'")


def test_another_media_type_is_refused(server: RunningServer) -> None:
    check(send(server, b"a=1", **{"content-type": "text/plain"}), 415, "application/json")


def test_an_address_that_nobody_answers_says_where_the_list_is(server: RunningServer) -> None:
    with server.client() as http:
        check(http.get("/v2/rollouts"), 404, "openapi.json")
        check(http.get("/v1/rollouts/%00"), 404, "There is no rollout")
        check(http.get("/" + "x" * 5000), 400, "longer")
        refused = http.delete("/v1/rollouts")
        check(refused, 405, "GET, POST")
        assert refused.headers["allow"] == "GET, POST"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=a", "limit"),
        ("limit=1&limit=2", "limit"),
        ("status=asleep", "status"),
        ("cursor=-1", "cursor"),
        ("shape=round", "shape"),
    ],
)
def test_a_query_that_does_not_fit_names_its_field(
    server: RunningServer, query: str, field: str
) -> None:
    with server.client() as http:
        answer = http.get(f"/v1/rollouts?{query}")
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_a_client_that_hangs_up_in_the_middle_of_its_body_harms_nobody(
    server: RunningServer,
) -> None:
    address = ("127.0.0.1", urlsplit(server.url).port or 0)
    for _ in range(3):
        with socket.create_connection(address) as raw:
            raw.sendall(
                b"POST /v1/rollouts HTTP/1.1\r\nhost: localhost\r\ncontent-type:"
                b' application/json\r\ncontent-length: 1000\r\n\r\n{"rollouts'
            )
    with server.client() as http:
        assert http.get("/readyz").json()["status"] == "ready"


def test_noise_instead_of_http_harms_nobody(server: RunningServer) -> None:
    address = ("127.0.0.1", urlsplit(server.url).port or 0)
    for noise in (b"\x00" * 100, b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00", b"POST / HTTP/9\r\n\r\n"):
        with socket.create_connection(address) as raw:
            raw.settimeout(5)
            raw.sendall(noise)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass
    with server.client() as http:
        assert http.get("/healthz").json()["status"] == "ok"


def test_a_database_that_is_gone_is_503_and_to_be_tried_again(server: RunningServer) -> None:
    server.app.services.store._database.close()
    with server.client() as http:
        answer = http.get("/v1/rollouts")
        check(answer, 503, "closed")
        assert answer.headers["retry-after"]
        assert http.get("/readyz").status_code == 503
        assert http.get("/healthz").status_code == 200
