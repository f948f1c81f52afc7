"""What passes the gateway is what would have passed without it."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable

import pytest

from ratchet.server.access import Caller
from ratchet.server.gateway import Upstream
from tests.server.gateway.conftest import (
    Site,
    both,
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

CHAT = "/gateway/bot/openai/v1/chat/completions"
ODD_JSON = (
    b'{ "model":"m",\t"messages": [ {"content":"h\\u00e9 \xc3\xa9","role":"user"} ], "x":1e2 }'
)


def ask(site: Site, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer, after which the connection is closed."""
    with raw_call(site.port, request.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)) as wire:
        head, _, body = read_all(wire).partition(b"\r\n\r\n")
    return head, body


def test_the_body_reaches_the_upstream_byte_for_byte(site: Site, upstream: StubUpstream) -> None:
    upstream.answers({})
    ask(site, http_request(f"{CHAT}?api-version=2&x=%20a", ODD_JSON))
    assert upstream.seen[0].body == ODD_JSON
    assert upstream.seen[0].target == "/v1/chat/completions?api-version=2&x=%20a"


def test_headers_that_matter_pass_and_others_stay(site: Site, upstream: StubUpstream) -> None:
    upstream.answers({})
    sent = {
        "content-type": "application/json; charset=utf-8",
        "accept": "text/event-stream",
        "user-agent": "agent/1",
        "openai-organization": "org",
        "anthropic-beta": "a,b",
        "x-request-id": "r\xe9",
        "accept-encoding": "gzip, br;q=0.9, deflate",
        "cookie": "session=1",
        "x-forwarded-for": "10.0.0.1",
        "x-forwarded-client-cert": "Hash=1",
        "cf-connecting-ip": "10.0.0.1",
        "true-client-ip": "10.0.0.1",
        "fly-client-ip": "10.0.0.1",
        "via": "1.1 proxy",
        "proxy-authorization": "Basic x",
        "connection": "close, x-hop",
        "x-hop": "1",
        "te": "trailers",
    }
    with raw_call(site.port, http_request(CHAT, b"{}", sent)) as wire:
        read_all(wire)
    seen = dict(upstream.seen[0].headers)
    assert seen.pop("host") == f"127.0.0.1:{upstream.port}"
    assert seen == {
        "content-type": "application/json; charset=utf-8",
        "content-length": "2",
        "accept": "text/event-stream",
        "user-agent": "agent/1",
        "openai-organization": "org",
        "anthropic-beta": "a,b",
        "x-request-id": "r\xc3\xa9",  # Latin-1 in, UTF-8 out
        "accept-encoding": "gzip, deflate",
    }


def test_status_headers_and_body_of_the_answer_are_the_upstreams(
    site: Site, upstream: StubUpstream
) -> None:
    content = b'{"id" : "x",\n"choices":[]}'
    upstream.answers(
        content,
        418,
        x_request_id="req_1",
        openai_processing_ms="7",
        anthropic_ratelimit_requests_remaining="0",
        date="Sat, 01 Jan 2022 00:00:00 GMT",
        set_cookie="a=b",
        strict_transport_security="max-age=1",
        connection="close, x-hop",
        x_hop="1",
    )
    head, body = ask(site, http_request(CHAT, b"{}"))
    status, *lines = head.decode().split("\r\n")
    assert status.startswith("HTTP/1.1 418 ")
    assert body == content
    assert sorted(lines) == [
        "anthropic-ratelimit-requests-remaining: 0",
        "connection: close",
        f"content-length: {len(content)}",
        "content-type: application/json",
        "date: Sat, 01 Jan 2022 00:00:00 GMT",
        "openai-processing-ms: 7",
        "x-request-id: req_1",
    ]


def test_a_compressed_call_passes_as_it_is_and_is_recorded(
    site: Site, upstream: StubUpstream
) -> None:
    plain = json.dumps({"model": "m", "choices": [{"message": {"content": "Hi"}}]}).encode()
    packed = gzip.compress(b'{"model": "m", "messages": [{"role": "user", "content": "Yo"}]}')
    upstream.answers(gzip.compress(plain), content_encoding="gzip")
    sent = {"accept-encoding": "gzip", "content-encoding": "gzip"}
    head, body = ask(site, http_request(CHAT, packed, sent))
    assert b"content-encoding: gzip" in head
    assert gzip.decompress(body) == plain
    assert upstream.seen[0].body == packed
    assert upstream.seen[0].header("content-encoding") == "gzip"
    span = site.span()
    assert messages(span, "gen_ai.input.messages")[0]["parts"][0]["content"] == "Yo"
    assert messages(span, "gen_ai.output.messages")[0]["parts"][0]["content"] == "Hi"


def test_an_encoding_that_is_not_read_here_passes_and_is_noted(
    site: Site, upstream: StubUpstream
) -> None:
    upstream.answers(b"\x8b\x02\x80", content_encoding="br")
    _, body = ask(site, http_request(CHAT, b"{}"))
    assert body == b"\x8b\x02\x80"
    assert "br" in site.span().attributes["ratchet.recording.error"]


def test_each_piece_of_a_stream_passes_before_the_next_one_is_sent(
    site: Site, upstream: StubUpstream
) -> None:
    arrived = threading.Semaphore(0)
    pieces = [b": comment\n\n", event({"n": 1}), b"data: {", b'"n": 2}\n', b"\n", event("[DONE]")]
    stalled = []

    def script(seen: Seen, wire: Wire) -> None:
        wire.send(stream_head())
        for piece in pieces:
            wire.send(chunk(piece))
            if not arrived.acquire(timeout=60):
                stalled.append(piece)
        wire.send(chunk(b""))

    upstream.script = script
    with raw_call(site.port, http_request(CHAT, b"{}")) as wire:
        received = read_until(wire, b"\r\n\r\n").partition(b"\r\n\r\n")[2]
        for piece in pieces:
            while not received:
                received += wire.recv(65536)
            assert received == chunk(piece)
            received = b""
            arrived.release()
        assert wire.recv(65536) == chunk(b"")
    assert not stalled


def test_an_answer_without_length_or_chunks_or_content_passes(
    site: Site, upstream: StubUpstream
) -> None:
    upstream.sends(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nabc")
    head, body = ask(site, http_request(CHAT, b"{}"))
    assert b"transfer-encoding: chunked" in head
    assert body == b"3\r\nabc\r\n0\r\n\r\n"
    upstream.script = lambda seen, wire: wire.send(b"HTTP/1.1 204 No Content\r\n\r\n")
    # The version may be left out of the base URL.
    head, body = ask(site, http_request("/gateway/bot/openai/chat/completions", b"{}"))
    assert (head.split()[1], body) == (b"204", b"")
    assert upstream.seen[1].target == "/v1/chat/completions"


def test_a_connection_that_the_upstream_closed_is_not_used_again(
    site: Site, upstream: StubUpstream
) -> None:
    closed = threading.Event()

    def script(seen: Seen, wire: Wire) -> None:
        wire.send(reply({}))
        wire.cut()
        closed.set()

    upstream.script = script
    for _ in range(5):
        head, _ = ask(site, http_request(CHAT, b"{}"))
        assert b" 200 " in head
        assert closed.wait(60)
        closed.clear()


def test_calls_go_through_the_proxy_that_the_environment_names(
    open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    site = open_site(
        Upstream(name="far", dialect="openai", base_url="http://far.invalid/v1"),
        environ={"http_proxy": f"http://127.0.0.1:{upstream.port}"},
    )
    upstream.answers({})
    head, _ = ask(site, http_request(CHAT, b"{}"))
    assert b" 200 " in head
    assert upstream.seen[0].target == "http://far.invalid/v1/chat/completions"


# Keys


def test_the_providers_key_takes_the_place_of_the_clients(
    open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    site = open_site(*both(upstream, key_env="KEY"), environ={"KEY": "sk-secret"})
    upstream.answers({})
    keys = {"authorization": "Bearer ra_token", "x-api-key": "rk_key", "api-key": "sk-own"}
    ask(site, http_request(CHAT, b"{}", keys))
    ask(site, http_request("/gateway/bot/anthropic/v1/messages", b"{}", keys))
    first, second = upstream.seen
    assert first.header("authorization") == "Bearer sk-secret"
    assert first.header("x-api-key") is None
    assert second.header("x-api-key") == "sk-secret"
    assert second.header("authorization") is None
    assert first.header("api-key") is second.header("api-key") is None
    for span in site.spans(2):
        assert not any(word in json.dumps(span.attributes) for word in ("sk-", "rk_", "ra_"))


def test_without_a_key_of_the_servers_the_clients_own_passes_but_never_ours(
    open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    site = open_site(*both(upstream, key_env="KEY"))
    upstream.answers({})
    keys = {"authorization": "bearer  ra_token", "x-api-key": "sk-own"}
    ask(site, http_request(CHAT, b"{}", keys))
    assert upstream.seen[0].header("authorization") is None
    assert upstream.seen[0].header("x-api-key") == "sk-own"


def test_a_missing_key_is_named(open_site: Callable[..., Site], upstream: StubUpstream) -> None:
    site = open_site(*both(upstream, key_env="SOME_KEY"))
    head, body = ask(site, http_request(CHAT, b"{}", {"authorization": "Bearer ra_token"}))
    assert b" 401 " in head
    assert "Set SOME_KEY where Ratchet is started" in json.loads(body)["detail"]
    assert not upstream.seen


# Models


def test_a_mapped_model_changes_that_word_alone(
    open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    site = open_site(*both(upstream, models={"m": "real-m"}))
    upstream.answers({})
    ask(site, http_request(CHAT, ODD_JSON))
    assert upstream.seen[0].body == (
        b'{"model":"real-m","messages":[ {"content":"h\\u00e9 \xc3\xa9","role":"user"} ],"x":1e2}'
    )
    found = site.span().attributes
    assert found["gen_ai.request.model"] == "real-m"
    assert found["ratchet.asked_model"] == "m"


def test_the_upstream_that_knows_the_model_is_taken(
    open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    other = StubUpstream()
    try:
        site = open_site(
            Upstream(name="first", dialect="openai", base_url=upstream.url),
            Upstream(name="local", dialect="openai", base_url=other.url, models={"qwen*": "qwen*"}),
        )
        upstream.answers({})
        other.answers({})
        ask(site, http_request(CHAT, b'{"model": "qwen3-8b"}'))
        ask(site, http_request(CHAT, b'{"model": "gpt-5"}'))
        assert other.seen[0].json == {"model": "qwen3-8b"}
        assert upstream.seen[0].json == {"model": "gpt-5"}
        names = {span.attributes["ratchet.upstream"] for span in site.spans(2)}
        assert names == {"first", "local"}
    finally:
        other.close()


def test_a_dialect_that_no_upstream_speaks_is_a_clear_answer(
    open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    site = open_site(Upstream(name="one", dialect="openai", base_url=upstream.url))
    head, body = ask(site, http_request("/gateway/bot/anthropic/v1/messages", b"{}"))
    assert b" 404 " in head
    assert 'dialect = "anthropic"' in json.loads(body)["detail"]


# Paths and callers


@pytest.mark.parametrize(
    ("target", "method", "status"),
    [
        ("/gateway/bot/openai/v1/images", "POST", 404),
        ("/gateway/bot/openai/v1/", "POST", 404),
        ("/gateway/bot/openai", "POST", 404),
        ("/gateway/bot/cohere/v1/models", "GET", 404),
        ("/gateway//openai/v1/models", "GET", 404),
        ("/gateway/a%20b/openai/v1/models", "GET", 404),
        ("/gateway/r@0/openai/v1/models", "GET", 404),
        ("/gateway/r@x/openai/v1/models", "GET", 404),
        (f"/gateway/{'a' * 101}/openai/v1/models", "GET", 404),
        ("/gateway/bot/openai/v1/chat/completions", "GET", 405),
        ("/gateway/bot/openai/v1/models", "POST", 405),
    ],
)
def test_a_wrong_address_is_a_clear_answer(
    site: Site, target: str, method: str, status: int
) -> None:
    head, body = ask(site, http_request(target, b"", method=method))
    assert f" {status} ".encode() in head
    assert b"application/problem+json" in head
    problem = json.loads(body)
    assert problem["status"] == status
    assert problem["error"]["message"] == problem["detail"]
    if status == 405:
        assert b"allow: " in head


def test_an_attempts_token_opens_its_own_scope_alone(
    open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    site = open_site(*both(upstream), caller=Caller(attempt=("r1", 2)))
    upstream.answers({})
    own, _ = ask(site, http_request("/gateway/r1@2/openai/v1/chat/completions", b"{}"))
    assert b" 200 " in own
    for other in ("r1@1", "r2@2", "r1", "bot"):
        head, body = ask(site, http_request(f"/gateway/{other}/openai/v1/chat/completions", b"{}"))
        assert b" 403 " in head
        assert "gives no access to" in json.loads(body)["detail"]


def test_an_attempt_must_exist_and_run(
    open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    asked: list[tuple[str, int]] = []

    async def running(rollout_id: str, fence: int) -> str:
        asked.append((rollout_id, fence))
        return {"here": "running", "gone": "over"}.get(rollout_id, "unknown")

    site = open_site(*both(upstream), running=running)
    upstream.answers({})
    statuses = [
        ask(site, http_request(f"/gateway/{scope}/openai/v1/chat/completions", b"{}"))[0].split()[1]
        for scope in ("here@1", "here@1", "gone@1", "none@1", "bot")
    ]
    assert statuses == [b"200", b"200", b"409", b"404", b"200"]
    # An answer holds for a while, and a live agent is no attempt.
    assert asked == [("here", 1), ("gone", 1), ("none", 1)]
