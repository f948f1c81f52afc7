"""What a call costs that ended before its answer did: unknown, unless nothing was bought."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ratchet.store.usage import total, used_in
from ratchet.types import Cost
from tests.server.gateway.conftest import Site, both, exchange, http_request, raw_call, read_until
from tests.server.gateway.upstreams import (
    Seen,
    StubUpstream,
    Wire,
    chunk,
    event,
    reply,
    stream_head,
)

OPENAI, ANTHROPIC = "openai/v1/chat/completions", "anthropic/v1/messages"
RESPONSES = "openai/v1/responses"
MODELS = {OPENAI: "gpt-4o", RESPONSES: "gpt-4o", ANTHROPIC: "claude-sonnet-4-5"}

WORD = event(
    {
        "model": "gpt-4o",
        "choices": [{"index": 0, "delta": {"content": "Hi"}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1},  # as vLLM reports all along
    }
)
MESSAGE = {"id": "msg_1", "role": "assistant", "model": "claude-sonnet-4-5"}
BEGUN = event(
    {
        "type": "message_start",
        "message": {**MESSAGE, "usage": {"input_tokens": 900, "output_tokens": 1}},
    }
)
CREATED = event({"type": "response.created", "response": {"id": "r", "model": "gpt-4o"}})
SAID = event({"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"})
STREAMS = {OPENAI: WORD, ANTHROPIC: BEGUN, RESPONSES: CREATED + SAID}

FAILED = {"type": "server_error", "message": "Overloaded."}
WRONG = {"cut": "upstream_disconnected", "stalled": "timeout", "error": "server_error"}
"""How a span names what was wrong with a stream."""


def cost(site: Site) -> Cost:
    span = site.span()
    used = used_in(span)
    return total([used] if used else [], {span.span_id: None}).cost


def call(site: Site, api: str, *, stream: bool = True) -> bytes:
    body = f'{{"model": "{MODELS[api]}", "stream": {str(stream).lower()}}}'.encode()
    keys = {"authorization": "Bearer sk-x", "x-api-key": "sk-x"}
    return exchange(site, f"/gateway/bot/{api}", body, keys)[1]


@pytest.mark.parametrize("api", STREAMS)
@pytest.mark.parametrize("how", ["cut", "stalled", "ended", "error"])
def test_a_stream_that_the_upstream_does_not_finish_has_an_unknown_cost(
    open_site: Callable[..., Site], upstream: StubUpstream, api: str, how: str
) -> None:
    site = open_site(*both(upstream, timeout_s=0.3))

    def script(seen: Seen, wire: Wire) -> None:
        wire.send(stream_head() + chunk(STREAMS[api]))
        if how == "error":
            wire.send(chunk(event({"type": "error", "error": FAILED})))
        if how in ("ended", "error"):
            wire.send(chunk(b""))
        elif how == "stalled":
            wire.wait_for_end()
        else:
            wire.cut()

    upstream.script = script
    received = call(site, api)
    assert STREAMS[api] in received
    assert received.endswith(b"0\r\n\r\n") == (how in ("ended", "error"))
    assert cost(site) == Cost(unpriced={MODELS[api]: 1})
    span = site.span()
    assert span.attributes["http.response.status_code"] == 200
    if how in WRONG:
        assert (span.status, span.attributes["error.type"]) == ("error", WRONG[how])
    assert (span.message == "Overloaded.") == (how == "error")


@pytest.mark.parametrize("api", STREAMS)
def test_a_stream_that_its_client_closes_has_an_unknown_cost(
    site: Site, upstream: StubUpstream, api: str
) -> None:
    told = upstream.sends(stream_head() + chunk(STREAMS[api]), hangs=True)
    body = f'{{"model": "{MODELS[api]}", "stream": true}}'.encode()
    with raw_call(site.port, http_request(f"/gateway/bot/{api}", body)) as wire:
        read_until(wire, STREAMS[api])
    assert told.ended.wait(60)
    assert cost(site) == Cost(unpriced={MODELS[api]: 1})


def test_an_answer_that_stops_midway_has_an_unknown_cost(
    site: Site, upstream: StubUpstream
) -> None:
    upstream.sends(reply({"choices": [{"message": {"content": "Hi"}}]})[:-9])
    call(site, OPENAI, stream=False)
    assert cost(site) == Cost(unpriced={"gpt-4o": 1})


def test_a_call_that_is_not_answered_in_time_has_an_unknown_cost(
    open_site: Callable[..., Site], upstream: StubUpstream
) -> None:
    site = open_site(*both(upstream, timeout_s=0.2))
    upstream.sends(hangs=True)
    call(site, OPENAI, stream=False)
    assert cost(site) == Cost(unpriced={"gpt-4o": 1})


@pytest.mark.parametrize("api", STREAMS)
@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_call_that_is_refused_costs_nothing(
    site: Site, upstream: StubUpstream, api: str, status: int
) -> None:
    upstream.answers({"error": {"type": "refused", "message": "No."}}, status)
    call(site, api)
    assert cost(site) == Cost()


def test_a_stream_whose_usage_came_before_the_client_left_has_its_cost(
    site: Site, upstream: StubUpstream
) -> None:
    last: dict[str, Any] = {"model": "gpt-4o", "choices": [], "usage": {"prompt_tokens": 400_000}}
    last["usage"]["completion_tokens"] = 0

    told = upstream.sends(stream_head() + chunk(WORD + event(last)), hangs=True)
    body = b'{"model": "gpt-4o", "stream": true}'
    with raw_call(site.port, http_request(f"/gateway/bot/{OPENAI}", body)) as wire:
        read_until(wire, event(last))
    assert told.ended.wait(60)
    assert cost(site).usd == pytest.approx(1.0)
