"""POST /v1/traces over HTTP: answered once the spans are stored, as the specification says."""

from __future__ import annotations

import gzip
import sqlite3
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from ratchet.server.limits import ServerLimits
from ratchet.server.otlp import endpoint, limits, messages
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from tests.server.otlp.conftest import Send
from tests.server.otlp.requests import (
    JSON,
    PROTOBUF,
    as_json,
    encoded,
    rejected,
    request,
    span,
    status,
)
from tests.serving import RunningServer


def test_spans_are_stored_when_the_answer_comes(send: Send, stored: Store, media_type: str) -> None:
    body = encoded(request(span(), span(), service__name="bot"), media_type)
    answer = send(body, media_type)
    assert (answer.status_code, answer.headers["content-type"]) == (200, media_type)
    assert answer.content == (b"" if media_type == PROTOBUF else b"{}")
    assert len(stored.spans.live("bot")[0]) == 2


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)]
)
@pytest.mark.parametrize("size", [1, 5_000])
def test_compressed_bodies_small_and_large(
    send: Send,
    stored: Store,
    media_type: str,
    coding: str,
    pack: Callable[[bytes], bytes],
    size: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert endpoint.INLINE_BODY > 5_000
    monkeypatch.setattr(endpoint, "INLINE_BODY", 5_000)
    text = "".join(chr(0x21 + number * number % 90) for number in range(size))
    body = encoded(request(span({"text": text}), service__name="bot"), media_type)
    answer = send(pack(body), media_type, content_encoding=coding)
    assert answer.status_code == 200
    assert stored.spans.live("bot")[0][0].attributes["text"] == text


def test_many_at_once_are_all_stored(server: RunningServer, stored: Store) -> None:
    def one(number: int) -> int:
        body = encoded(request(*(span() for _ in range(5)), service__name="bot"), PROTOBUF)
        with server.client() as http:
            headers = {"content-type": PROTOBUF}
            return http.post("/v1/traces", content=body, headers=headers).status_code

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(one, range(40))) == {200}
    assert len(stored.spans.live("bot", 1000)[0]) == 200


def test_other_methods_and_media_types_are_sent_away(server: RunningServer, send: Send) -> None:
    for media_type in ("text/plain", "application/x-thrift", ""):
        answer = send(b"{}", media_type)
        assert (answer.status_code, answer.headers["content-type"]) == (
            415,
            "application/problem+json",
        )
    assert send(b"{}", "Application/JSON; charset=utf-8").status_code == 200
    with server.client() as http:
        answer = http.put("/v1/traces")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
    assert send(b"{}", JSON, content_encoding="br").status_code == 415


DAMAGED = [
    (PROTOBUF, b"\xff"),
    (PROTOBUF, b"\x0a\xff\xff\xff\xff\x0f"),
    (JSON, b""),
    (JSON, b"{"),
    (JSON, b"[]"),
    (JSON, b'"\xff"'),
    (JSON, b'{"resourceSpans": 3}'),
    (JSON, b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 5}]}]}]}'),
    (JSON, b'{"resourceSpans": [{"resource": {"attributes": [{"key": 5}]}}]}'),
]


@pytest.mark.parametrize(("media_type", "body"), DAMAGED)
def test_damaged_bodies_are_refused_in_the_form_of_the_request(
    send: Send, media_type: str, body: bytes
) -> None:
    answer = send(body, media_type)
    assert (answer.status_code, answer.headers["content-type"]) == (400, media_type)
    code, message = status(answer.content, media_type)
    assert code == 3
    assert message.startswith("The body is ")


def test_a_truncated_body_is_refused(send: Send, stored: Store, media_type: str) -> None:
    body = encoded(request(span({"a": "b" * 50}), service__name="bot"), media_type)
    for end in (len(body) // 3, len(body) // 2, len(body) - 1):
        assert send(body[:end], media_type).status_code == 400
    packed = gzip.compress(body)
    assert send(packed[:-9], media_type, content_encoding="gzip").status_code == 400
    assert send(body, media_type, content_encoding="gzip").status_code == 400
    assert stored.spans.agents() == []


def test_a_body_beyond_the_limit_is_refused_also_when_it_hides_in_a_small_one(
    serving: Callable[..., RunningServer], sqlite_url: str
) -> None:
    server = serving(sqlite_url, ServeSettings(port=0, limits=ServerLimits(body_bytes=100_000)))
    large = encoded(request(span({"a": "b" * 100_000})), PROTOBUF)
    with server.client() as http:
        headers = {"content-type": PROTOBUF}
        answer = http.post("/v1/traces", content=large, headers=headers)
        assert answer.status_code == 413
        assert status(answer.content, PROTOBUF) == (
            8,
            f"The body has {len(large)} bytes; the limit is 100000.",
        )
        headers["content-encoding"] = "gzip"
        answer = http.post("/v1/traces", content=gzip.compress(large), headers=headers)
        assert answer.status_code == 413
        del headers["content-encoding"]
        parts = (large[at : at + 10_000] for at in range(0, len(large), 10_000))
        assert http.post("/v1/traces", content=parts, headers=headers).status_code == 413
        small = encoded(request(span()), PROTOBUF)
        assert http.post("/v1/traces", content=small, headers=headers).status_code == 200


def test_more_spans_than_a_request_may_have_are_refused(
    send: Send, media_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (endpoint, messages):
        monkeypatch.setattr(module, "MAX_SPANS", 3)
    assert limits.MAX_SPANS == 20_000
    body = encoded(request(*(span() for _ in range(4))), media_type)
    answer = send(body, media_type)
    assert answer.status_code == 413
    assert "more than 3 spans" in status(answer.content, media_type)[1]


def test_spans_without_usable_ids_or_times_are_rejected_and_the_others_stored(
    send: Send, stored: Store, media_type: str
) -> None:
    body = encoded(
        request(
            span(),
            span(trace_id=b"short"),
            span(trace_id=bytes(16)),
            span(span_id=b""),
            span(start_time_unix_nano=2**64 - 1),
            span(start_time_unix_nano=50, end_time_unix_nano=10),
            service__name="bot",
        ),
        media_type,
    )
    answer = send(body, media_type)
    assert answer.status_code == 200
    count, why = rejected(answer.content, media_type)
    assert count == 4
    assert why == (
        "Spans that were not stored: 2 have a trace id that is not 16 bytes, or is all zeros,"
        " 1 have a span id that is not 8 bytes, or is all zeros,"
        " 1 have a time that is not nanoseconds in 63 bits."
    )
    backwards, _ = stored.spans.live("bot")[0]
    assert (backwards.start_ns, backwards.end_ns) == (50, 10)


def test_what_the_store_cannot_take_is_not_acknowledged(
    server: RunningServer, send: Send, stored: Store, media_type: str
) -> None:
    path = server.store_url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as raw:
        raw.execute(
            "CREATE TRIGGER full BEFORE INSERT ON spans"
            " BEGIN SELECT RAISE(ABORT, 'no space left'); END"
        )
    body = encoded(request(span(), service__name="bot"), media_type)
    answer = send(body, media_type)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    code, message = status(answer.content, media_type)
    assert code == 14
    assert "no space left" in message
    assert stored.spans.agents() == []
    with sqlite3.connect(path) as raw:
        raw.execute("DROP TRIGGER full")
    assert send(body, media_type).status_code == 200
    assert stored.spans.agents() == ["bot"]


def test_when_too_much_is_under_way_clients_are_told_when_to_come_back(
    send: Send, server: RunningServer, monkeypatch: pytest.MonkeyPatch, media_type: str
) -> None:
    budget = server.app.services.bodies
    monkeypatch.setattr(budget, "_limit", 10)
    monkeypatch.setattr(budget, "_room_s", 0.01)
    monkeypatch.setattr(budget, "held", 9)
    body = encoded(request(span({"text": "x" * 100_000})), media_type)
    answer = send(body, media_type)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert status(answer.content, media_type)[0] == 8
    monkeypatch.setattr(budget, "held", 0)
    assert send(body, media_type).status_code == 200


def test_bytes_under_way_are_given_back_however_a_request_ends(
    send: Send, server: RunningServer
) -> None:
    good = encoded(request(span({"text": "x" * 100_000})), PROTOBUF)
    send(good)
    send(good[:-1])
    send(gzip.compress(good), content_encoding="gzip")
    send(b"x" * 100, content_encoding="gzip")
    send(as_json(request(span())), JSON)
    assert server.app.services.bodies.held == 0
