"""The relay passes on what comes, as it comes, to where its routes lead at that moment."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from ratchet._http import httpx2
from ratchet.run.model_relay import CALL_HEADER, Exchange, ModelRelay, RelayAnswer, RelayedRequest


class Upstream:
    """An upstream that says what it was asked, and whose streams wait for their reader."""

    def __init__(self) -> None:
        self.asked: list[RelayedRequest] = []
        self.go_on = threading.Event()

    def answer(self, request: RelayedRequest) -> RelayAnswer:
        self.asked.append(request)
        if request.path.endswith("/stream"):
            return RelayAnswer(pieces=self._pieces(), content_type="text/event-stream")
        return RelayAnswer(pieces=[b'{"from": "', request.path.encode(), b'"}'], status=201)

    def _pieces(self) -> Iterator[bytes]:
        yield b"data: first\n\n"
        self.go_on.wait(10)
        yield b"data: second\n\n"


@pytest.fixture
def upstream() -> Iterator[tuple[Upstream, str]]:
    behaviour = Upstream()
    with ModelRelay(answering=behaviour.answer) as server:
        yield behaviour, server.url


def test_a_route_leads_where_it_was_last_led_and_a_direct_path_names_its_upstream(
    upstream: tuple[Upstream, str],
) -> None:
    behaviour, url = upstream
    ended: list[Exchange] = []
    with ModelRelay({"openai": f"{url}/first/v1"}, ended=ended.append) as relay:
        for lead in ("first", "second"):
            relay.lead("openai", f"{url}/{lead}/v1")
            answer = httpx2.post(
                f"{relay.url}/openai/chat/completions?a=1%2F2",
                json={"model": "m"},
                headers={"authorization": "Bearer key", CALL_HEADER: "call-1"},
            )
            assert (answer.status_code, answer.json()["from"]) == (
                201,
                f"/{lead}/v1/chat/completions?a=1%2F2",
            )
        large = httpx2.post(relay.address_of(f"{url}/direct"), content=b"x" * 3_000_000)
        assert large.status_code == 201
        assert httpx2.get(f"{relay.url}/nowhere").status_code == 404
    assert [len(request.body) for request in behaviour.asked] == [13, 13, 3_000_000]
    headers = {name.lower(): value for name, value in behaviour.asked[0].headers.items()}
    assert headers["authorization"] == "Bearer key"
    assert CALL_HEADER not in headers
    assert [exchange.request.call for exchange in ended] == ["call-1", "call-1", "", ""]
    assert [exchange.status for exchange in ended] == [201, 201, 201, 404]
    assert ended[0].body == b'{"from": "/first/v1/chat/completions?a=1%2F2"}'


def test_a_stream_arrives_piece_by_piece_and_is_kept_whole(upstream: tuple[Upstream, str]) -> None:
    behaviour, url = upstream
    ended: list[Exchange] = []
    with (
        ModelRelay({"openai": url}, ended=ended.append) as relay,
        httpx2.stream("POST", f"{relay.url}/openai/stream", timeout=10) as answer,
    ):
        pieces = answer.iter_bytes()
        assert next(pieces) == b"data: first\n\n"
        behaviour.go_on.set()
        assert b"".join(pieces) == b"data: second\n\n"
    assert ended[0].body == b"data: first\n\ndata: second\n\n"


def test_an_upstream_that_cannot_be_reached_is_named(upstream: tuple[Upstream, str]) -> None:
    ended: list[Exchange] = []
    with ModelRelay(ended=ended.append) as relay:
        answer = httpx2.post(relay.address_of("http://127.0.0.1:9/v1/chat"), json={})
    assert answer.status_code == 502
    assert "127.0.0.1:9 did not answer" in answer.json()["error"]["message"]
    assert ended[0].error


def test_a_call_whose_program_and_upstream_both_ended_is_still_told() -> None:
    told = threading.Event()
    ended: list[Exchange] = []

    def tell(exchange: Exchange) -> None:
        ended.append(exchange)
        told.set()

    with (
        socket.create_server(("127.0.0.1", 0)) as upstream,
        ModelRelay({"model": f"http://127.0.0.1:{upstream.getsockname()[1]}"}, ended=tell) as relay,
    ):
        place = urlsplit(relay.url)
        with socket.create_connection((place.hostname, place.port or 0)) as program:
            program.sendall(b"POST /model/chat HTTP/1.1\r\nhost: m\r\ncontent-length: 0\r\n\r\n")
            arrived, _ = upstream.accept()
            # An answer that is reset says at once that its program is gone.
            program.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        arrived.recv(65_536)
        arrived.close()
        assert told.wait(20)
    assert [exchange.request.path for exchange in ended] == ["/chat"]
