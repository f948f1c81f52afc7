"""Whatever bytes come: an answer that says so, no failure of the server, and it goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ratchet._http import httpx2
from ratchet.store import Store
from tests.server.otlp.requests import JSON, PROTOBUF, as_json, encoded, request, span
from tests.serving import RunningServer

SOUND = request(
    span(
        {"llm.input_messages.0.message.content": "Hi", "openinference.span.kind": "LLM", "n": [1]},
        events=[{"name": "e", "time_unix_nano": 3}],
        links=[{"trace_id": b"t" * 16, "span_id": b"s" * 8}],
    ),
    service__name="bot",
)
BODIES = {PROTOBUF: encoded(SOUND, PROTOBUF), JSON: as_json(SOUND)}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A client of one server for all examples."""
    server = RunningServer(f"sqlite:///{tmp_path_factory.mktemp('bytes')}/ratchet.db")
    with server.client() as client:
        yield client
        # Whatever came before, a sound body is taken.
        answer = client.post("/v1/traces", content=BODIES[JSON], headers={"content-type": JSON})
        assert answer.status_code == 200, answer.content
    server.stop()
    with Store.open(server.store_url) as store:
        assert len(store.spans.live("bot")[0]) >= 1


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    """A sound body with some of its bytes changed, left out or put in."""
    media_type = draw(st.sampled_from([PROTOBUF, JSON]))
    body = bytearray(BODIES[media_type])
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(body)))
        until = draw(st.integers(at, min(at + 8, len(body))))
        body[at:until] = draw(st.binary(max_size=8))
    return media_type, bytes(body)


def check(http: httpx2.Client, media_type: str, body: bytes, **headers: str) -> None:
    given = {"content-type": media_type, **headers}
    answer = http.post("/v1/traces", content=body, headers=given)
    assert answer.status_code in (200, 400, 413), answer.content
    assert answer.headers["content-type"] == media_type


@given(mutated())
@example((PROTOBUF, BODIES[PROTOBUF]))
@example((JSON, BODIES[JSON]))
def test_bodies_that_are_almost_sound(http: httpx2.Client, one: tuple[str, bytes]) -> None:
    check(http, *one)


HEADERS: st.SearchStrategy[str] = st.text(st.characters(min_codepoint=33, max_codepoint=126))


@given(HEADERS, HEADERS)
def test_any_media_type_and_encoding(http: httpx2.Client, media_type: str, coding: str) -> None:
    headers = {"content-type": media_type, "content-encoding": coding}
    answer = http.post("/v1/traces", content=b"{}", headers=headers)
    assert answer.status_code in (200, 400, 415)


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        (JSON, b"[" * 1_000_000),
        (JSON, b'{"resourceSpans":' * 100_000),
        (JSON, b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 500_000 + b"{}]}]}]}"),
        (JSON, b"\xf0\x9f" * 500_000),
        (PROTOBUF, b"\x0a\x00" * 500_000),
        (PROTOBUF, b"\x0a\x02\x12\x00" * 300_000),
        (PROTOBUF, b"\x13" * 1_000_000),
    ],
    ids=["brackets", "objects", "no ids", "not UTF-8", "resources", "scopes", "groups"],
)
def test_large_bodies_of_nothing(http: httpx2.Client, media_type: str, body: bytes) -> None:
    check(http, media_type, body)
