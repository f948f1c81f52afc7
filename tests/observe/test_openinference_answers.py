"""Answers that OpenInference records are read as at the gateway."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
from openinference.instrumentation.anthropic import AnthropicInstrumentor, _stream, _wrappers
from openinference.instrumentation.openai import OpenAIInstrumentor, _request
from opentelemetry.sdk.trace import TracerProvider

from ratchet.observe.dialects import normalise
from ratchet.observe.instruments.openinference_answers import read_anthropic, read_openai
from tests.observe.conftest import Exported

ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
CALLS = [
    {"id": "a", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
    {"id": "b", "function": {"name": "clock", "arguments": '{"zone":"CET"}'}},
]
USAGE = {"prompt_tokens": 80, "completion_tokens": 5, "total_tokens": 85, "cached_tokens": 64}
HEAD = {"id": "c", "model": "m", "created": 1}
Record = Callable[[Callable[[openai.OpenAI], None], httpx.Response], dict[str, Any]]


def not_instrumented(instrumentor: Any) -> Any:
    """An instrumentor, of which there is one a process, as it is before anybody used it."""
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()
    return instrumentor


@pytest.fixture
def record(
    monkeypatch: pytest.MonkeyPatch, exported: tuple[TracerProvider, Exported]
) -> Iterator[Record]:
    """Calls the client, and returns the attributes of its span in the span model."""
    for name in ("_ChatCompletionAccumulator", "_CompletionAccumulator", "_ResponsesAccumulator"):
        monkeypatch.setattr(_request, name, getattr(_request, name))
    monkeypatch.setattr(_request, "_ResponseAttributes", _request._ResponseAttributes)
    read_openai(None)
    read_openai(None)  # `init` may run twice
    instrumentor = not_instrumented(OpenAIInstrumentor())
    instrumentor.instrument(tracer_provider=exported[0], skip_dep_check=True)

    def recorded(use: Callable[[openai.OpenAI], None], answer: httpx.Response) -> dict[str, Any]:
        transport = httpx.MockTransport(lambda request: answer)
        http_client = httpx.Client(transport=transport)
        use(openai.OpenAI(api_key="k", base_url="http://model", http_client=http_client))
        (span,) = exported[1]()
        return normalise(span.name, dict(span.attributes or {}))

    yield recorded
    instrumentor.uninstrument()


def stream(*chunks: dict[str, Any]) -> httpx.Response:
    lines = [f"data: {json.dumps({**HEAD, **chunk})}\n\n" for chunk in chunks]
    head = {"content-type": "text/event-stream"}
    return httpx.Response(200, headers=head, text="".join([*lines, "data: [DONE]\n\n"]))


def calls_of(attributes: dict[str, Any]) -> list[tuple[str, Any]]:
    (message,) = json.loads(attributes["gen_ai.output.messages"])
    return [(part["name"], part["arguments"]) for part in message["parts"]]


def delta(call: dict[str, Any]) -> dict[str, Any]:
    own = {"index": 0, "type": "function", **call}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [own]}}]}


def test_tool_calls_of_a_stream_with_one_index_are_apart(record: Record) -> None:
    ended = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": USAGE}
    found = record(
        lambda client: list(client.chat.completions.create(**ASKED, stream=True)) and None,
        stream(*map(delta, CALLS), ended),
    )
    assert calls_of(found) == [("weather", {"city": "Oslo"}), ("clock", {"zone": "CET"})]
    assert found["gen_ai.usage.cache_read.input_tokens"] == 64
    assert "ratchet.broken_off" not in found


def test_a_stream_that_is_left_early_has_broken_off(record: Record) -> None:
    def leave(client: openai.OpenAI) -> None:
        with client.chat.completions.create(**ASKED, stream=True) as answer:
            next(iter(answer))

    found = record(leave, stream(*map(delta, CALLS)))
    assert calls_of(found) == [("weather", {"city": "Oslo"})]
    assert found["ratchet.broken_off"] is True


def test_an_answer_that_is_not_streamed_is_read_alike(record: Record) -> None:
    calls = [{"type": "function", **call} for call in CALLS]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    found = record(
        lambda client: client.chat.completions.create(**ASKED) and None,
        httpx.Response(200, json={**HEAD, "choices": [choice], "usage": USAGE}),
    )
    assert calls_of(found) == [("weather", {"city": "Oslo"}), ("clock", {"zone": "CET"})]
    assert found["gen_ai.usage.cache_read.input_tokens"] == 64


def test_outputs_that_the_user_hides_stay_hidden(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENINFERENCE_HIDE_OUTPUTS", "true")
    found = record(
        lambda client: list(client.chat.completions.create(**ASKED, stream=True)) and None,
        stream(*map(delta, CALLS)),
    )
    assert "weather" not in json.dumps(found)


# Anthropic's client


MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "A"}},
        {"type": "text", "text": "Hi"},
    ],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 20,
        "output_tokens": 9,
        "cache_creation_input_tokens": 100,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 100},
        "server_tool_use": {"web_search_requests": 1},
    },
}
PARTS = [
    {
        "type": "server_tool_call",
        "id": "s",
        "name": "web_search",
        "server_tool_call": {"type": "web_search", "input": {"query": "A"}},
    },
    {"type": "text", "content": "Hi"},
]


def message_events() -> Iterator[dict[str, Any]]:
    begun = {**MESSAGE, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(MESSAGE["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 9},
    }
    yield {"type": "message_stop"}


@pytest.mark.parametrize("how", ["whole", "stream", "left"])
def test_answers_of_anthropics_client_are_read_as_at_the_gateway(
    how: str, monkeypatch: pytest.MonkeyPatch, exported: tuple[TracerProvider, Exported]
) -> None:
    for module in (_stream, _wrappers):
        name = "_get_output_message_attributes"
        monkeypatch.setattr(module, name, getattr(module, name))
    read_anthropic()
    read_anthropic()
    instrumentor = not_instrumented(AnthropicInstrumentor())
    instrumentor.instrument(tracer_provider=exported[0], skip_dep_check=True)
    lines = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in message_events()]
    answer = (
        httpx2.Response(200, json=MESSAGE)
        if how == "whole"
        else httpx2.Response(
            200, headers={"content-type": "text/event-stream"}, text="".join(lines)
        )
    )
    http_client = httpx2.Client(transport=httpx2.MockTransport(lambda request: answer))
    asked: Any = {**ASKED, "max_tokens": 9}
    try:
        client = anthropic.Anthropic(api_key="k", base_url="http://model", http_client=http_client)
        if how == "whole":
            client.messages.create(**asked)
        else:
            with client.messages.create(**asked, stream=True) as stream:
                for event in stream:
                    if how == "left" and event.type == "content_block_stop":
                        break
    finally:
        instrumentor.uninstrument()
    (span,) = [one for one in exported[1]() if one.attributes]
    found = normalise(span.name, dict(span.attributes or {}))
    (message,) = json.loads(found["gen_ai.output.messages"])
    assert message["parts"] == (PARTS[:1] if how == "left" else PARTS)
    assert found.get("ratchet.broken_off", False) is (how == "left")
    assert found["gen_ai.usage.input_tokens"] == 120
    assert found["ratchet.usage.cache_creation_1h.input_tokens"] == 100
    assert found["ratchet.usage.web_searches"] == 1
