"""Bodies, addresses and methods that nobody should send."""

from __future__ import annotations

import gzip
from typing import Any

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


def test_a_database_that_is_gone_is_503_and_to_be_tried_again(server: RunningServer) -> None:
    server.app.services.store._database.close()
    with server.client() as http:
        answer = http.get("/v1/rollouts")
        check(answer, 503, "closed")
        assert answer.headers["retry-after"]
        assert http.get("/readyz").status_code == 503
        assert http.get("/healthz").status_code == 200
