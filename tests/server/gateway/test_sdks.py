"""The official clients, unchanged but for their base URL."""

from __future__ import annotations

import json

import anthropic
import openai
import pytest

from tests.server.gateway.conftest import Site, messages
from tests.server.gateway.upstreams import StubUpstream, event

CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o-mini-2024-07-18",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "It is sunny."},
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "total_tokens": 1100,
        "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 100},
        "completion_tokens_details": {"reasoning_tokens": 7},
    },
}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Tells the weather.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


def openai_client(site: Site, scope: str = "bot") -> openai.OpenAI:
    return openai.OpenAI(base_url=site.url(scope), api_key="sk-mine", max_retries=0)


def anthropic_client(site: Site, scope: str = "bot") -> anthropic.Anthropic:
    return anthropic.Anthropic(
        base_url=site.url(scope, "anthropic"), api_key="sk-ant-mine", max_retries=0
    )


def test_a_chat_is_answered_and_recorded(site: Site, upstream: StubUpstream) -> None:
    upstream.answers(CHAT)
    answer = openai_client(site).chat.completions.create(
        model="gpt-4o-mini",
        messages=[
            {"role": "system", "content": "You know the weather."},
            {"role": "user", "content": "And in Paris?"},
        ],
        temperature=0.5,
        max_completion_tokens=50,
        stop=["\n"],
        seed=3,
    )
    assert answer.choices[0].message.content == "It is sunny."
    assert upstream.seen[0].target == "/v1/chat/completions"

    span = site.span()
    assert span.name == "chat gpt-4o-mini"
    assert span.status == "ok"
    assert span.parent_id is None
    assert span.start_ns < span.end_ns
    found = span.attributes
    assert {key: found[key] for key in found if not key.endswith("messages")} == {
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
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 100,
        "gen_ai.usage.cache_read.input_tokens": 200,
        "gen_ai.usage.cache_creation.input_tokens": 100,
        "gen_ai.usage.reasoning.output_tokens": 7,
        "http.response.status_code": 200,
        # 0.15, 0.075 cached and 0.6 dollars for a million tokens.
        "ratchet.cost_usd": pytest.approx(800 * 0.15e-6 + 200 * 0.075e-6 + 100 * 0.6e-6),
    }
    assert messages(span, "gen_ai.input.messages") == [
        {"role": "system", "parts": [{"type": "text", "content": "You know the weather."}]},
        {"role": "user", "parts": [{"type": "text", "content": "And in Paris?"}]},
    ]
    assert messages(span, "gen_ai.output.messages") == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "It is sunny."}],
            "finish_reason": "stop",
        }
    ]


def chat_chunk(delta: dict[str, object], **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None, **more}
    return event(
        {
            "id": "chatcmpl-2",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "gpt-4o-mini",
            "choices": [choice],
        }
    )


def test_a_streamed_chat_with_tools_is_recorded_as_one_answer(
    site: Site, upstream: StubUpstream
) -> None:
    def call(index: int, **function: str) -> dict[str, object]:
        first = {"id": f"call_{index}", "type": "function"} if "name" in function else {}
        return {"tool_calls": [{"index": index, **first, "function": function}]}

    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    upstream.streams(
        [
            chat_chunk({"role": "assistant", "content": ""}),
            chat_chunk({"content": "Let me "}),
            chat_chunk({"content": "look."}),
            chat_chunk(call(0, name="weather", arguments="")),
            chat_chunk(call(0, arguments='{"city": "Pa')),
            chat_chunk(call(0, arguments='ris"}')),
            chat_chunk(call(1, name="weather", arguments='{"city": "Rome"}')),
            chat_chunk({}, finish_reason="tool_calls"),
            event({"id": "chatcmpl-2", "model": "gpt-4o-mini", "choices": [], "usage": usage}),
            event("[DONE]"),
        ]
    )
    stream = openai_client(site).chat.completions.create(
        model="gpt-4o-mini",
        messages=[
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "call_9",
                        "type": "function",
                        "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_9", "content": "rain"},
        ],
        tools=TOOLS,  # type: ignore[arg-type]
        stream=True,
        stream_options={"include_usage": True},
    )
    words = "".join(c.choices[0].delta.content or "" for c in stream if c.choices)
    assert words == "Let me look."

    span = site.span()
    found = span.attributes
    assert found["gen_ai.request.stream"] is True
    assert found["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert found["gen_ai.usage.input_tokens"] == 9
    assert found["gen_ai.usage.output_tokens"] == 4
    assert 0 < found["gen_ai.response.time_to_first_chunk"] < 10
    assert messages(span, "gen_ai.output.messages") == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "Let me look."},
                {
                    "type": "tool_call",
                    "id": "call_0",
                    "name": "weather",
                    "arguments": {"city": "Paris"},
                },
                {
                    "type": "tool_call",
                    "id": "call_1",
                    "name": "weather",
                    "arguments": {"city": "Rome"},
                },
            ],
            "finish_reason": "tool_calls",
        }
    ]
    assert messages(span, "gen_ai.input.messages")[1:] == [
        {
            "role": "assistant",
            "parts": [
                {
                    "type": "tool_call",
                    "id": "call_9",
                    "name": "weather",
                    "arguments": {"city": "Oslo"},
                }
            ],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "call_9", "response": "rain"}],
        },
    ]
    assert messages(span, "gen_ai.tool.definitions") == [
        {"type": "function", **TOOLS[0]["function"]}  # type: ignore[dict-item]
    ]


def test_a_response_is_answered_and_recorded(site: Site, upstream: StubUpstream) -> None:
    upstream.answers(RESPONSE)
    answer = openai_client(site).responses.create(
        model="gpt-4o-mini",
        instructions="Be brief.",
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
            {
                "type": "function_call",
                "call_id": "c1",
                "name": "weather",
                "arguments": '{"city": "Oslo"}',
            },
            {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        ],
        tools=[{"type": "function", "strict": None, **TOOLS[0]["function"]}],  # type: ignore[dict-item,list-item]
        reasoning={"effort": "low"},
        max_output_tokens=99,
    )
    assert answer.output_text == "Rain."
    check_response_span(site)


def test_a_streamed_response_is_recorded_like_a_whole_one(
    site: Site, upstream: StubUpstream
) -> None:
    begun = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}
    upstream.streams(
        [
            event({"type": "response.created", "sequence_number": 0, "response": begun}, "x"),
            event(
                {
                    "type": "response.output_text.delta",
                    "sequence_number": 1,
                    "item_id": "m1",
                    "output_index": 1,
                    "content_index": 0,
                    "delta": "Rain.",
                    "logprobs": [],
                }
            ),
            event({"type": "response.completed", "sequence_number": 2, "response": RESPONSE}),
        ]
    )
    stream = openai_client(site).responses.create(
        model="gpt-4o-mini", instructions="Be brief.", input="Weather?", stream=True
    )
    kinds = [each.type for each in stream]
    assert kinds[-1] == "response.completed"
    check_response_span(site)


RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "error": None,
    "incomplete_details": None,
    "model": "gpt-4o-mini-2024-07-18",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Clouds."}],
        },
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
            "status": "completed",
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


def check_response_span(site: Site) -> None:
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
    assert messages(span, "gen_ai.system_instructions") == [
        {"type": "text", "content": "Be brief."}
    ]
    assert messages(span, "gen_ai.output.messages") == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "Clouds."},
                {"type": "text", "content": "Rain."},
                {
                    "type": "tool_call",
                    "id": "c2",
                    "name": "weather",
                    "arguments": {"city": "Rome"},
                },
            ],
            "finish_reason": "completed",
        }
    ]
    given = messages(span, "gen_ai.input.messages")
    assert given[0] == {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]}
    if len(given) > 1:
        assert given[2]["parts"][0]["response"] == "rain"


def test_embeddings_are_recorded_without_the_vectors(site: Site, upstream: StubUpstream) -> None:
    upstream.answers(
        {
            "object": "list",
            "model": "text-embedding-3-small",
            "data": [
                {"object": "embedding", "index": 0, "embedding": [0.1, 0.2, 0.3]},
                {"object": "embedding", "index": 1, "embedding": [0.1, 0.2, 0.3]},
            ],
            "usage": {"prompt_tokens": 6, "total_tokens": 6},
        }
    )
    answer = openai_client(site).embeddings.create(
        model="text-embedding-3-small", input=["one", "two"], encoding_format="float"
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
    upstream.streams(
        [
            event({"id": "cmpl-1", "model": "m", "choices": [{"index": 0, "text": "Once "}]}),
            event(
                {
                    "id": "cmpl-1",
                    "model": "m",
                    "choices": [{"index": 0, "text": "more", "finish_reason": "length"}],
                }
            ),
            event("[DONE]"),
        ]
    )
    stream = openai_client(site).completions.create(model="m", prompt="Again:", stream=True)
    assert "".join(each.choices[0].text for each in stream) == "Once more"
    span = site.span()
    assert span.name == "text_completion m"
    assert messages(span, "gen_ai.input.messages")[0]["parts"][0]["content"] == "Again:"
    assert messages(span, "gen_ai.output.messages") == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "Once more"}],
            "finish_reason": "length",
        }
    ]


MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-6",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "tu_1", "name": "weather", "input": {"city": "Paris"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 10,
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 2,
        "output_tokens": 5,
    },
}

MESSAGE_EVENTS = [
    {
        "type": "message_start",
        "message": {
            **MESSAGE,
            "content": [],
            "stop_reason": None,
            "usage": {**MESSAGE["usage"], "output_tokens": 1},  # type: ignore[dict-item]
        },
    },
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "thinking", "thinking": "", "signature": ""},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "thinking_delta", "thinking": "Hm."},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "text_delta", "text": "Let me "},
    },
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "look."}},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "tu_1", "name": "weather", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": '{"city": '},
    },
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": '"Paris"}'},
    },
    {"type": "content_block_stop", "index": 2},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 5},
    },
    {"type": "message_stop"},
]


def check_message_span(site: Site) -> None:
    span = site.span()
    found = span.attributes
    assert found["gen_ai.provider.name"] == "anthropic"
    assert found["gen_ai.response.model"] == "claude-sonnet-4-6"
    # The convention counts cached tokens as input, Anthropic does not.
    assert found["gen_ai.usage.input_tokens"] == 15
    assert found["gen_ai.usage.output_tokens"] == 5
    assert found["gen_ai.usage.cache_read.input_tokens"] == 2
    assert found["gen_ai.usage.cache_creation.input_tokens"] == 3
    # 3, 0.3 read, 3.75 written and 15 dollars for a million tokens.
    assert found["ratchet.cost_usd"] == pytest.approx(
        10 * 3e-6 + 2 * 0.3e-6 + 3 * 3.75e-6 + 5 * 15e-6
    )
    assert messages(span, "gen_ai.system_instructions") == [
        {"type": "text", "content": "You know the weather."}
    ]
    assert messages(span, "gen_ai.output.messages") == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "Hm."},
                {"type": "text", "content": "Let me look."},
                {
                    "type": "tool_call",
                    "id": "tu_1",
                    "name": "weather",
                    "arguments": {"city": "Paris"},
                },
            ],
            "finish_reason": "tool_use",
        }
    ]


def test_a_message_is_answered_and_recorded(site: Site, upstream: StubUpstream) -> None:
    upstream.answers(MESSAGE)
    answer = anthropic_client(site).messages.create(
        model="claude-sonnet-4-6",
        max_tokens=100,
        system=[{"type": "text", "text": "You know the weather."}],
        messages=[
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "tu_0", "name": "weather", "input": {"city": "Oslo"}}
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "tu_0", "content": "rain"}],
            },
        ],
        tools=[{"name": "weather", "input_schema": {"type": "object"}}],
    )
    assert answer.stop_reason == "tool_use"
    assert upstream.seen[0].target == "/v1/messages"
    assert upstream.seen[0].header("anthropic-version")
    check_message_span(site)
    span = site.span()
    given = messages(span, "gen_ai.input.messages")
    assert given[1]["parts"][0]["arguments"] == {"city": "Oslo"}
    assert given[2] == {
        "role": "user",
        "parts": [{"type": "tool_call_response", "id": "tu_0", "response": "rain"}],
    }
    assert messages(span, "gen_ai.tool.definitions")[0]["parameters"] == {"type": "object"}


def test_a_streamed_message_is_recorded_like_a_whole_one(
    site: Site, upstream: StubUpstream
) -> None:
    upstream.streams([event(each, str(each["type"])) for each in MESSAGE_EVENTS])
    with anthropic_client(site).messages.stream(
        model="claude-sonnet-4-6",
        max_tokens=100,
        system="You know the weather.",
        messages=[{"role": "user", "content": "Weather?"}],
    ) as stream:
        assert "".join(stream.text_stream) == "Let me look."
    check_message_span(site)
    assert site.span().attributes["gen_ai.response.time_to_first_chunk"] > 0


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
