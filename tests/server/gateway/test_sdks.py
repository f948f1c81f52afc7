"""The official clients, unchanged but for their base URL."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from tests.server.gateway.conftest import Site, messages
from tests.server.gateway.other_providers import (
    call,
    completion,
    completion_chunks,
    message,
    message_events,
    text,
    use,
)
from tests.server.gateway.upstreams import StubUpstream, event

FUNCTION: dict[str, Any] = {
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
SYSTEM = "You know the weather."

streamed_or_not = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])


def openai_client(site: Site, scope: str = "bot") -> Any:
    return openai.OpenAI(base_url=site.url(scope), api_key="sk-mine", max_retries=0)


def anthropic_client(site: Site, scope: str = "bot") -> Any:
    return anthropic.Anthropic(
        base_url=site.url(scope, "anthropic"), api_key="sk-ant-mine", max_retries=0
    )


def recorded_call(id: str, city: str) -> dict[str, Any]:
    """A call of the tool as spans have it."""
    return {"type": "tool_call", "id": id, "name": "weather", "arguments": {"city": city}}


def recorded_text(content: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "content": content}


@streamed_or_not
def test_a_chat_with_tools_is_answered_and_recorded(
    site: Site, upstream: StubUpstream, streams: bool
) -> None:
    calls = [call("call_0", "weather", '{"city": "Paris"}')]
    calls.append(call("call_1", "weather", '{"city": "Rome"}'))
    answer = completion("Let me look.", *calls, reason="tool_calls")
    upstream.answers(answer)
    options: dict[str, Any] = {}
    if streams:
        upstream.streams([*map(event, completion_chunks(answer)), event("[DONE]")])
        options = {"stream": True, "stream_options": {"include_usage": True}}
    got = openai_client(site).chat.completions.create(
        model="gpt-4o-mini",
        messages=[
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "tool_calls": [call("c", "weather", '{"city": "Oslo"}')]},
            {"role": "tool", "tool_call_id": "c", "content": "rain"},
        ],
        tools=[{"type": "function", "function": FUNCTION}],
        temperature=0.5,
        max_completion_tokens=50,
        stop=["\n"],
        seed=3,
        **options,
    )
    if streams:
        words = "".join(each.choices[0].delta.content or "" for each in got if each.choices)
    else:
        words = got.choices[0].message.content
    assert words == "Let me look."
    assert upstream.seen[0].target == "/v1/chat/completions"

    span = site.span()
    assert (span.name, span.status, span.parent_id) == ("chat gpt-4o-mini", "ok", None)
    assert span.start_ns < span.end_ns
    found = span.attributes
    if streams:
        assert found.pop("gen_ai.request.stream") is True
        assert 0 < found.pop("gen_ai.response.time_to_first_chunk") < 10
    said = ("messages", "definitions")
    assert {key: found[key] for key in found if not key.endswith(said)} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "server.address": "127.0.0.1",
        "server.port": upstream.port,
        "ratchet.upstream": "one",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.stop_sequences": ["\n"],
        "gen_ai.request.seed": 3,
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.usage.input_tokens": 15,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "gen_ai.usage.cache_creation.input_tokens": 3,
        "gen_ai.usage.reasoning.output_tokens": 1,
        "http.response.status_code": 200,
        # 0.15, 0.075 cached and 0.6 dollars for a million tokens.
        "ratchet.cost_usd": pytest.approx(13 * 0.15e-6 + 2 * 0.075e-6 + 5 * 0.6e-6),
    }
    result = {"type": "tool_call_response", "id": "c", "response": "rain"}
    assert messages(span, "gen_ai.input.messages") == [
        {"role": "system", "parts": [recorded_text(SYSTEM)]},
        {"role": "user", "parts": [recorded_text("Weather?")]},
        {"role": "assistant", "parts": [recorded_call("c", "Oslo")]},
        {"role": "tool", "parts": [result]},
    ]
    parts = [recorded_text("Let me look.")]
    parts += [recorded_call("call_0", "Paris"), recorded_call("call_1", "Rome")]
    assert messages(span, "gen_ai.output.messages") == [
        {"role": "assistant", "parts": parts, "finish_reason": "tool_calls"}
    ]
    assert messages(span, "gen_ai.tool.definitions") == [{"type": "function", **FUNCTION}]


RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "gpt-4o-mini-2024-07-18",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Clouds."}]},
        {
            "type": "message",
            "id": "m1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Rain.", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c2",
            "name": "weather",
            "arguments": '{"city": "Rome"}',
        },
    ],
    "usage": {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 4},
        "output_tokens": 8,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 28,
    },
}


@streamed_or_not
def test_a_response_is_answered_and_recorded(
    site: Site, upstream: StubUpstream, streams: bool
) -> None:
    upstream.answers(RESPONSE)
    if streams:
        begun = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}
        place = {"item_id": "m1", "output_index": 1, "content_index": 0, "logprobs": []}
        told = [
            {"type": "response.created", "response": begun},
            {"type": "response.output_text.delta", "delta": "Rain.", **place},
            {"type": "response.completed", "response": RESPONSE},
        ]
        upstream.streams([event({**each, "sequence_number": n}) for n, each in enumerate(told)])
    call = {"call_id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'}
    got = openai_client(site).responses.create(
        model="gpt-4o-mini",
        instructions="Be brief.",
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
            {"type": "function_call", **call},
            {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        ],
        tools=[{"type": "function", "strict": None, **FUNCTION}],
        reasoning={"effort": "low"},
        max_output_tokens=99,
        stream=streams,
    )
    assert ([*got][-1].response if streams else got).output_text == "Rain."
    span = site.span()
    found = span.attributes
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.response.id"] == "resp_1"
    assert found["gen_ai.response.finish_reasons"] == ["completed"]
    assert found["gen_ai.usage.input_tokens"] == 20
    assert found["gen_ai.usage.cache_read.input_tokens"] == 5
    assert found["gen_ai.usage.cache_creation.input_tokens"] == 4
    assert found["gen_ai.usage.reasoning.output_tokens"] == 3
    assert found["ratchet.cost_usd"] > 0
    assert messages(span, "gen_ai.system_instructions") == [recorded_text("Be brief.")]
    parts = [recorded_text("Clouds.", "reasoning"), recorded_text("Rain.")]
    parts.append(recorded_call("c2", "Rome"))
    assert messages(span, "gen_ai.output.messages") == [
        {"role": "assistant", "parts": parts, "finish_reason": "completed"}
    ]
    given = messages(span, "gen_ai.input.messages")
    assert given[0] == {"role": "user", "parts": [recorded_text("Weather?")]}
    assert given[2]["parts"][0]["response"] == "rain"


def test_embeddings_are_recorded_without_the_vectors(site: Site, upstream: StubUpstream) -> None:
    vectors = [{"object": "embedding", "index": n, "embedding": [0.1, 0.2, 0.3]} for n in (0, 1)]
    usage = {"prompt_tokens": 6, "total_tokens": 6}
    model = "text-embedding-3-small"
    upstream.answers({"object": "list", "model": model, "data": vectors, "usage": usage})
    answer = openai_client(site).embeddings.create(
        model=model, input=["one", "two"], encoding_format="float"
    )
    assert len(answer.data) == 2
    span = site.span()
    assert span.name == "embeddings text-embedding-3-small"
    assert span.attributes["gen_ai.usage.input_tokens"] == 6
    assert span.attributes["gen_ai.embeddings.dimension.count"] == 3
    assert span.attributes["gen_ai.request.encoding_formats"] == ["float"]
    assert span.attributes["ratchet.cost_usd"] > 0
    assert len(messages(span, "gen_ai.input.messages")) == 2
    assert "0.2" not in json.dumps(span.attributes)


def test_a_completion_is_answered_and_recorded(site: Site, upstream: StubUpstream) -> None:
    choices = [{"text": "Once "}, {"text": "more", "finish_reason": "length"}]
    told = [{"id": "c", "model": "m", "choices": [{"index": 0, **choice}]} for choice in choices]
    upstream.streams([*map(event, told), event("[DONE]")])
    stream = openai_client(site).completions.create(model="m", prompt="Again:", stream=True)
    assert "".join(each.choices[0].text for each in stream) == "Once more"
    span = site.span()
    assert span.name == "text_completion m"
    assert messages(span, "gen_ai.input.messages")[0]["parts"][0]["content"] == "Again:"
    assert messages(span, "gen_ai.output.messages") == [
        {"role": "assistant", "parts": [recorded_text("Once more")], "finish_reason": "length"}
    ]


@streamed_or_not
def test_a_message_is_answered_and_recorded(
    site: Site, upstream: StubUpstream, streams: bool
) -> None:
    model = "claude-sonnet-4-6"
    answer = message(
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        text("Let me look."),
        use("tu_1", "weather", {"city": "Paris"}),
        stop_reason="tool_use",
        model=model,
    )
    result = {"type": "tool_result", "tool_use_id": "tu_0", "content": "rain"}
    asked: dict[str, Any] = {
        "model": model,
        "max_tokens": 100,
        "system": [text(SYSTEM)],
        "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [use("tu_0", "weather", {"city": "Oslo"})]},
            {"role": "user", "content": [result]},
        ],
        "tools": [{"name": "weather", "input_schema": {"type": "object"}}],
    }
    if streams:
        upstream.streams([event(each, each["type"]) for each in message_events(answer)])
        with anthropic_client(site).messages.stream(**asked) as stream:
            assert "".join(stream.text_stream) == "Let me look."
    else:
        upstream.answers(answer)
        assert anthropic_client(site).messages.create(**asked).stop_reason == "tool_use"
    assert upstream.seen[0].target == "/v1/messages"
    assert upstream.seen[0].header("anthropic-version")
    span = site.span()
    found = span.attributes
    assert ("gen_ai.response.time_to_first_chunk" in found) == streams
    assert found["gen_ai.provider.name"] == "anthropic"
    assert found["gen_ai.response.model"] == model
    # The convention counts cached tokens as input, Anthropic does not.
    assert found["gen_ai.usage.input_tokens"] == 15
    assert found["gen_ai.usage.output_tokens"] == 5
    assert found["gen_ai.usage.cache_read.input_tokens"] == 2
    assert found["gen_ai.usage.cache_creation.input_tokens"] == 3
    # 3, 0.3 read, 3.75 written and 15 dollars for a million tokens.
    assert found["ratchet.cost_usd"] == pytest.approx(
        10 * 3e-6 + 2 * 0.3e-6 + 3 * 3.75e-6 + 5 * 15e-6
    )
    assert messages(span, "gen_ai.system_instructions") == [recorded_text(SYSTEM)]
    parts = [recorded_text("Hm.", "reasoning"), recorded_text("Let me look.")]
    parts.append(recorded_call("tu_1", "Paris"))
    assert messages(span, "gen_ai.output.messages") == [
        {"role": "assistant", "parts": parts, "finish_reason": "tool_use"}
    ]
    given = messages(span, "gen_ai.input.messages")
    assert given[1]["parts"][0]["arguments"] == {"city": "Oslo"}
    response = {"type": "tool_call_response", "id": "tu_0", "response": "rain"}
    assert given[2] == {"role": "user", "parts": [response]}
    assert messages(span, "gen_ai.tool.definitions")[0]["parameters"] == {"type": "object"}


def test_models_and_token_counts_pass_through_unrecorded(
    site: Site, upstream: StubUpstream
) -> None:
    upstream.answers({"object": "list", "data": [{"id": "m", "object": "model"}]})
    assert [one.id for one in openai_client(site).models.list()] == ["m"]
    upstream.answers({"input_tokens": 12})
    counted = anthropic_client(site).messages.count_tokens(
        model="claude-sonnet-4-6", messages=[{"role": "user", "content": "Hi"}]
    )
    assert counted.input_tokens == 12
    assert [(one.method, one.target) for one in upstream.seen] == [
        ("GET", "/v1/models"),
        ("POST", "/v1/messages/count_tokens"),
    ]
    site.spans(0)


def test_a_providers_error_reaches_the_client_and_the_span(
    site: Site, upstream: StubUpstream
) -> None:
    error = {"error": {"message": "Slow down.", "type": "rate_limit_error", "code": None}}
    upstream.answers(error, 429, retry_after="7", x_ratelimit_remaining_requests="0")
    with pytest.raises(openai.RateLimitError, match=r"Slow down\.") as raised:
        openai_client(site).chat.completions.create(
            model="gpt-4o-mini", messages=[{"role": "user", "content": "Hello"}]
        )
    assert raised.value.response.headers["retry-after"] == "7"
    assert raised.value.response.headers["x-ratelimit-remaining-requests"] == "0"
    span = site.span()
    assert (span.status, span.message) == ("error", "Slow down.")
    assert span.attributes["error.type"] == "rate_limit_error"
    assert span.attributes["http.response.status_code"] == 429
    assert len(upstream.seen) == 1  # nothing is tried again on the gateway's own
