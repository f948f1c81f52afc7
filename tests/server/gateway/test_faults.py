"""Upstreams that fail, clients that vanish, and stores that are slow."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ratchet.observe.spool import Spool, waits
from ratchet.server.gateway import Upstream
from ratchet.server.gateway.recording_queue import RecordingQueue
from ratchet.server.metrics import Metrics
from ratchet.server.span_writer import SpanWriter
from ratchet.store import Store
from ratchet.store.spans import ReceivedSpans
from ratchet.types import Span, SpanRecord
from tests.server.gateway.conftest import (
    Site,
    both,
    exchange,
    http_request,
    messages,
    raw_call,
    read_all,
    read_until,
)
from tests.server.gateway.upstreams import (
    Seen,
    StubUpstream,
    Wire,
    chunk,
    event,
    reply,
    stream_head,
)

RECORD = SpanRecord(
    span=Span(trace_id="1" * 32, span_id="2" * 16, parent_id=None, name="", start_ns=0, end_ns=0)
)

CHAT = "/gateway/bot/openai/v1/chat/completions"


def ask(site: Site, body: bytes = b"{}", target: str = CHAT) -> tuple[int, Any]:
    """Status and decoded body of an answer of the gateway's own."""
    head, content = exchange(site, target, body)
    return int(head.split()[1]), json.loads(content)


def hello(text: str) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": text}}]})


# Upstreams


def test_an_upstream_that_is_down_is_named(open_site: Callable[..., Site]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    site = open_site(
        Upstream(name="away", dialect="openai", base_url=f"http://127.0.0.1:{port}/v1")
    )
    status, problem = ask(site)
    assert status == 502
    assert f"The upstream 'away' at 127.0.0.1:{port} cannot be reached" in problem["detail"]
    span = site.span()
    assert (span.status, span.attributes["error.type"]) == ("error", "connect_error")
    assert "http.response.status_code" not in span.attributes


def test_an_upstream_that_is_slow_to_answer_times_out(
    open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    site = open_site(*both(upstream, timeout_s=0.2))
    told = upstream.sends(hangs=True)
    status, problem = ask(site)
    assert status == 504
    address = upstream.url.removeprefix("http://").partition("/")[0]
    assert problem["detail"] == f"The upstream 'one' at {address} sent nothing for 0.2 s."
    assert told.ended.wait(60), "the upstream was not hung up on"
    assert site.span().attributes["error.type"] == "timeout"


@pytest.mark.parametrize("chunked", [True, False])
def test_an_answer_that_is_cut_is_cut_for_the_client_too(
    site: Site, upstream: StubUpstream, chunked: bool
) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 500\r\n\r\n"
    # The last words come just before the end.
    words = (hello("One"), hello(" two"))
    upstream.sends(*((stream_head(), *map(chunk, words)) if chunked else (head, *words)))
    with raw_call(site.port, http_request(CHAT, b'{"stream": true}')) as wire:
        received = read_all(wire)
    assert b"One" in received
    assert b" two" in received
    assert not received.endswith(b"0\r\n\r\n")
    span = site.span()
    assert span.status == "error"
    assert span.attributes["error.type"] == "upstream_disconnected"
    assert messages(span, "gen_ai.output.messages")[0]["parts"][0]["content"] == "One two"


def test_an_upstream_that_hangs_up_without_a_word_is_a_bad_gateway(
    site: Site, upstream: StubUpstream
) -> None:
    upstream.sends()
    assert ask(site)[0] == 502
    assert site.span().attributes["error.type"] == "upstream_disconnected"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\x01\x02\x03" * 100,
        b"SSH-2.0-OpenSSH_9.0\r\n",
        b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\n" + b"x-many: y\r\n" * 5000,
        b"HTTP/1.1 200 OK\r\nx-long: " + b"y" * 100_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_http_is_a_bad_gateway(
    site: Site, upstream: StubUpstream, garbage: bytes
) -> None:
    upstream.sends(garbage)
    status, problem = ask(site)
    assert status == 502
    assert "The upstream 'one'" in problem["detail"]
    assert site.span().status == "error"


def test_chunks_that_are_none_cut_the_answer(site: Site, upstream: StubUpstream) -> None:
    arrived = threading.Event()

    def script(seen: Seen, wire: Wire) -> None:
        wire.send(stream_head() + chunk(hello("Hi")))
        arrived.wait(60)
        wire.send(b"zzz\r\nwhat\r\n")
        wire.wait_for_end()

    upstream.script = script
    with raw_call(site.port, http_request(CHAT, b"{}")) as wire:
        read_until(wire, b"Hi")
        arrived.set()
        assert not read_all(wire).endswith(b"0\r\n\r\n")
    span = site.span()
    assert (span.status, span.attributes["http.response.status_code"]) == ("error", 200)


@pytest.mark.parametrize(
    "content",
    [
        b"<html>Bad gateway</html>",
        b"",
        b"null",
        b"[1, 2]",
        b'"text"',
        b'{"choices": "none", "usage": [1], "model": {"a": 1}}',
        b'{"choices": [null, {"message": 3}], "usage": {"prompt_tokens": -1}}',
        b'{"choices": [{"message": {"content": "\\ud800 NaN"}, "x": NaN}]}',
        b"[" * 100_000,
        b'{"a":' * 900 + b"1" + b"}" * 900,
        b"\xff\xfe\x00",
    ],
)
def test_an_answer_that_is_not_understood_passes_and_is_recorded(
    site: Site, upstream: StubUpstream, content: bytes
) -> None:
    upstream.answers(content)
    assert exchange(site, CHAT)[1] == content
    span = site.span()
    assert span.attributes["http.response.status_code"] == 200
    json.dumps(span.attributes)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"\xff\xfe",
        b"[]",
        b'{"model": 7, "messages": {"role": 1}, "stop": 3, "tools": "x"}',
        b'{"messages": [null, 1, {"role": null, "content": [null, {"type": 2}]}]}',
        b'{"messages": [{"role": "user", "content": "\\ud83d"}], "temperature": NaN}',
        b'{"model": "m", "messages": ' + b"[" * 100_000,
        b'{"model": "m", "x": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"model": "' + b"m" * 100_000 + b'"}',
        b'{"max_tokens": 1e999, "seed": 123456789012345678901234567890}',
    ],
)
def test_a_request_that_is_not_understood_passes_and_is_recorded(
    site: Site, upstream: StubUpstream, content: bytes
) -> None:
    upstream.answers({"error": {"message": "No.", "type": "invalid_request_error"}}, 400)
    for provider, path in (
        ("openai", "chat/completions"),
        ("openai", "responses"),
        ("openai", "completions"),
        ("openai", "embeddings"),
        ("anthropic", "messages"),
    ):
        status, _ = ask(site, content, f"/gateway/bot/{provider}/v1/{path}")
        assert status == 400
        assert upstream.seen[-1].body == content
    for span in site.spans(5):
        assert span.attributes["error.type"] == "invalid_request_error"
        assert len(span.name) < 1100


# Sizes


def test_a_body_over_the_limit_is_refused_before_it_is_read(
    open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    site = open_site(*both(upstream), body_limit=1000)
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    with raw_call(site.port, f"{head}content-length: 1001\r\n\r\n".encode()) as wire:
        assert b" 413 " in wire.recv(65536)
    chunks = b"".join(chunk(b"x" * 600) for _ in range(2)) + chunk(b"")
    request = f"{head}transfer-encoding: chunked\r\n\r\n".encode() + chunks
    with raw_call(site.port, request) as wire:
        assert b" 413 " in wire.recv(65536)
    assert not upstream.seen


def test_a_large_call_passes_and_its_recording_is_bounded(
    site: Site, upstream: StubUpstream
) -> None:
    text = "word " * 500_000
    many = [{"role": "user", "content": f"message {n} " + "x" * 5000} for n in range(1500)]
    body = json.dumps({"model": "m", "messages": [*many, {"role": "user", "content": text}]})
    answer = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
    upstream.answers(answer)
    assert exchange(site, CHAT, body.encode())[1] == answer
    assert upstream.seen[0].body == body.encode()
    span = site.span()
    assert len(json.dumps(span.attributes)) < 700_000
    given = messages(span, "gen_ai.input.messages")
    assert given[0]["parts"][0]["content"].startswith("message 0 ")
    assert any(one["role"] == "omitted" and one["count"] > 1000 for one in given)
    assert "more characters]" in given[-1]["parts"][0]["content"]
    assert "more characters]" in messages(span, "gen_ai.output.messages")[0]["parts"][0]["content"]


def test_a_decompression_bomb_harms_nobody(site: Site, upstream: StubUpstream) -> None:
    import zlib

    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(b" " * 1_000_000) for _ in range(100)) + packer.flush()
    upstream.answers(bomb, content_encoding="gzip")
    assert exchange(site, CHAT)[1].endswith(bomb[-100:])
    assert "longer than" in site.span().attributes["ratchet.recording.error"]


# Clients


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_hangs_up_ends_the_upstreams_call(
    site: Site, upstream: StubUpstream, stream: bool
) -> None:
    begun = [stream_head(), chunk(hello("Hi"))] if stream else []
    told = upstream.sends(*begun, hangs=True)
    with raw_call(site.port, http_request(CHAT, b'{"stream": true}')) as wire:
        assert told.asked.wait(60)
        if stream:
            read_until(wire, b"Hi")
    assert told.ended.wait(60), "the upstream does not know that the client is gone"
    span = site.span()
    assert (span.status, span.attributes["error.type"]) == ("error", "client_disconnected")
    if stream:
        assert messages(span, "gen_ai.output.messages")[0]["parts"][0]["content"] == "Hi"


def test_a_client_that_hangs_up_before_its_request_is_whole_leaves_no_trace(
    site: Site, upstream: StubUpstream
) -> None:
    upstream.answers({})
    request = http_request(CHAT, b"x" * 1000)
    raw_call(site.port, request[:-10]).close()
    assert ask(site)[0] == 200
    assert len(upstream.seen) == 1
    site.spans(1)


def test_a_slow_client_does_not_make_the_server_hold_the_answer(
    site: Site, upstream: StubUpstream
) -> None:
    """What the client does not read stays with the upstream."""
    blocked = threading.Event()
    finished = threading.Event()
    whole = 200_000_000

    def script(seen: Seen, wire: Wire) -> None:
        wire.send(b"HTTP/1.1 200 OK\r\ncontent-type: x/y\r\ncontent-length: %d\r\n\r\n" % whole)
        wire.socket.settimeout(0.5)
        sent = 0
        try:
            while sent < whole:
                sent += wire.socket.send(b"x" * 65536)
        except TimeoutError:
            blocked.set()
            wire.wait_for_end()
        finished.set()

    upstream.script = script
    with raw_call(site.port, http_request(CHAT, b"{}")):
        assert blocked.wait(60)
    assert finished.wait(60)


# Retries and limits


def flaky(times: int, failure: bytes) -> Callable[[Seen, Wire], None]:
    left = [times]

    def script(seen: Seen, wire: Wire) -> None:
        left[0] -= 1
        wire.send(failure if left[0] >= 0 else reply({"id": "ok"}))

    return script


@pytest.mark.parametrize(
    ("retries", "failures", "status", "pause_s", "calls"),
    [
        (0, 1, 500, "0", 1),
        (2, 2, 429, "0", 3),
        (2, 2, 500, "0", 3),
        (2, 2, 503, "0", 3),
        (1, 9, 500, "0", 2),
        (3, 9, 429, "3600", 1),
    ],
    ids=["untold", "429", "500", "503", "used up", "a long pause"],
)
def test_a_failing_upstream_is_tried_again_as_often_as_told(
    open_site: Callable[..., Site],
    upstream: StubUpstream,
    retries: int,
    failures: int,
    status: int,
    pause_s: str,
    calls: int,
) -> None:
    site = open_site(*both(upstream, retries=retries))
    upstream.script = flaky(failures, reply({"n": 1}, status, retry_after=pause_s))
    expected = (200, {"id": "ok"}) if failures < calls else (status, {"n": 1})
    assert ask(site, b'{"a": 1}') == expected
    assert [seen.body for seen in upstream.seen] == [b'{"a": 1}'] * calls
    assert site.span().attributes.get("ratchet.retries", 0) == calls - 1


def test_a_stream_that_began_is_never_tried_again(
    open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    site = open_site(*both(upstream, retries=3))
    upstream.sends(stream_head(), chunk(hello("One")))
    with raw_call(site.port, http_request(CHAT, b"{}")) as wire:
        read_all(wire)
    assert len(upstream.seen) == 1


def test_calls_beyond_an_upstreams_concurrency_wait_and_then_are_refused(
    open_site: Callable[..., Site], upstream: StubUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet.server.gateway.pool.SLOT_TIMEOUT_S", 0.1)
    site = open_site(*both(upstream, concurrency=1))
    go = threading.Event()
    asked = threading.Event()

    def script(seen: Seen, wire: Wire) -> None:
        asked.set()
        go.wait(60)
        wire.send(reply({}))

    upstream.script = script
    with raw_call(site.port, http_request(CHAT, b"{}", {"connection": "close"})) as first:
        assert asked.wait(60)
        status, problem = ask(site)
        assert status == 429
        assert "raise concurrency under [upstreams.one]" in problem["detail"]
        go.set()
        assert b" 200 " in read_all(first)
    assert ask(site)[0] == 200
    kinds = [span.attributes.get("error.type") for span in site.spans(3)]
    assert sorted(map(str, kinds)) == ["None", "None", "overloaded"]


# Recording


class Room:
    """A writer with room for some records."""

    room = 0
    pending = 0

    def post(self, records: Sequence[SpanRecord]) -> bool:
        if len(records) > self.room:
            return False
        self.room -= len(records)
        return True

    async def flush(self) -> None:
        """Nothing is pending."""


class Stubborn(SpanWriter):
    """A writer that has no room for a while."""

    refuse = True

    def post(self, records: Sequence[SpanRecord]) -> bool:
        return False if self.refuse else super().post(records)


def test_recordings_wait_while_the_writer_holds_many_bytes(
    open_site: Callable[..., Site],
    upstream: StubUpstream,
    disk: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ratchet.server.gateway.recording_queue.BYTES_PENDING", 10_000)
    monkeypatch.setattr("ratchet.server.gateway.recording_queue.GATHER_MAX", 1)
    go = threading.Event()
    receive = disk.spans.receive

    def slowly(*args: Any, **options: Any) -> ReceivedSpans:
        go.wait(60)
        return receive(*args, **options)

    monkeypatch.setattr(disk.spans, "receive", slowly)
    site = open_site(*both(upstream))
    upstream.answers({})
    for _ in range(20):
        assert ask(site)[0] == 200
    assert 0 < site.writer.pending < 10
    go.set()
    site.spans(20)


@pytest.fixture
def slow_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three recordings may wait for the writer, and calls wait a moment for a place."""
    queue = "ratchet.server.gateway.recording_queue"
    monkeypatch.setattr(f"{queue}.LATE_LIMIT", 3)
    monkeypatch.setattr(f"{queue}.GATHER_MAX", 1)
    monkeypatch.setattr(f"{queue}.PLACE_S", 0.05)


@pytest.mark.usefixtures("slow_writer")
def test_a_call_is_answered_and_recorded_however_many_wait_to_be_recorded(
    open_site: Callable[..., Site], upstream: StubUpstream, disk: Store, tmp_path: Path
) -> None:
    writer, metrics = Stubborn(disk), Metrics()
    folder = tmp_path / "spool"
    site = open_site(*both(upstream), writer=writer, spool=Spool(folder), metrics=metrics)
    upstream.answers({})
    assert [ask(site)[0] for _ in range(8)] == [200] * 8
    writer.refuse = False
    site.spans(8)
    said = metrics.render()[1].decode()
    assert "ratchet_gateway_recording_wait_seconds_count 5.0" in said
    assert "ratchet_gateway_spooled_recordings_total 5.0" in said
    assert ask(site)[0] == 200
    site.spans(9)


@pytest.mark.usefixtures("slow_writer")
def test_recordings_that_wait_on_disk_are_stored_by_the_next_server(
    open_site: Callable[..., Site], upstream: StubUpstream, disk: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "spool"
    site = open_site(*both(upstream), writer=Stubborn(disk), spool=Spool(folder), drain_s=0.05)
    upstream.answers({})
    for _ in range(5):
        assert ask(site)[0] == 200
    site.close()
    assert disk.spans.of(None) == []
    next_site = open_site(*both(upstream), spool=Spool(folder))
    next_site.spans(5)
    next_site.close()  # a file goes after what it holds is stored
    assert not waits(folder)


@pytest.mark.usefixtures("slow_writer")
def test_calls_that_wait_for_a_place_get_it_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ratchet.server.gateway.recording_queue.PLACE_S", 5)

    async def main() -> None:
        writer = Room()
        queue = RecordingQueue(writer)
        for _ in range(3):
            queue._add(RECORD, 100)
        order: list[int] = []

        async def call(number: int) -> None:
            await queue.place()
            order.append(number)
            queue._add(RECORD, 100)

        calls = []
        for number in range(4):
            calls.append(asyncio.create_task(call(number)))
            await asyncio.sleep(0)
        assert order == []
        writer.room = 100
        await asyncio.wait(calls, timeout=5)
        assert order == [0, 1, 2, 3]
        await queue.close(5)

    asyncio.run(main())


def test_a_call_ends_when_its_answer_does_though_prices_are_still_to_be_read(
    site: Site, upstream: StubUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    ready: list[bool] = []

    def slowly() -> None:
        go.wait(60)
        ready.append(True)

    monkeypatch.setattr("ratchet.server.gateway.recording_queue.load", slowly)
    monkeypatch.setattr("ratchet.server.gateway.recording_queue.loaded", lambda: bool(ready))
    upstream.answers({})
    assert ask(site)[0] == 200
    site.run(asyncio.sleep(0))  # the server is past the end of the call
    over_ns = time.time_ns()
    go.set()
    assert site.span().end_ns < over_ns


def test_an_attempt_is_settled_when_its_calls_are_stored(
    site: Site, upstream: StubUpstream, attempt: tuple[str, int], disk: Store
) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 1000}
    upstream.answers({"model": "gpt-4o-mini", "choices": [], "usage": usage})
    rollout_id, fence = attempt
    scope = f"{rollout_id}@{fence}"
    for _ in range(3):
        ask(site, b'{"model": "gpt-4o-mini"}', f"/gateway/{scope}/openai/v1/chat/completions")
    site.run(site.gateway.flush_attempt(rollout_id, fence))
    spans = disk.spans.of(rollout_id, fence)
    assert len(spans) == 3
    spent = disk.rollouts.get([rollout_id])[rollout_id].cost_usd
    assert spent == pytest.approx(3 * (1000 * 0.15e-6 + 1000 * 0.6e-6))


def test_settling_includes_the_calls_that_a_killed_agent_left_open(
    site: Site, upstream: StubUpstream, attempt: tuple[str, int], disk: Store
) -> None:
    told = upstream.sends(stream_head(), chunk(hello("Hi")), hangs=True)
    rollout_id, fence = attempt
    target = f"/gateway/{rollout_id}@{fence}/openai/v1/chat/completions"
    with raw_call(site.port, http_request(target, b'{"stream": true}')):
        assert told.asked.wait(60)
    site.run(site.gateway.flush_attempt(rollout_id, fence))
    (span,) = disk.spans.of(rollout_id, fence)
    assert span.attributes["error.type"] == "client_disconnected"


def test_a_server_that_ends_lets_calls_end_and_stores_them(
    open_site: Callable[..., Site], upstream: StubUpstream, disk: Store
) -> None:
    site = open_site(*both(upstream))
    go = threading.Event()
    asked = threading.Event()

    def script(seen: Seen, wire: Wire) -> None:
        asked.set()
        go.wait(60)
        wire.send(reply({"id": "late"}))

    upstream.script = script
    with raw_call(site.port, http_request(CHAT, b"{}", {"connection": "close"})) as wire:
        assert asked.wait(60)
        ending = threading.Thread(target=site.close)
        ending.start()
        go.set()
        assert b'"late"' in read_all(wire)
        ending.join(60)
    assert len(disk.spans.of(None)) == 1


def test_a_server_that_may_wait_no_longer_cuts_calls_and_stores_them(
    open_site: Callable[..., Site], upstream: StubUpstream, disk: Store
) -> None:
    site = open_site(*both(upstream), drain_s=0.05)
    told = upstream.sends(hangs=True)
    with raw_call(site.port, http_request(CHAT, b"{}")):
        assert told.asked.wait(60)
        site.run(site.gateway.close())
    site.close()
    (span,) = disk.spans.of(None)
    assert span.attributes["error.type"] in ("cancelled", "client_disconnected")
