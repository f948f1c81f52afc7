"""Usage, as each provider documents its report of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_prices.data import providers

from ratchet.llm import price
from ratchet.observe.dialects import normalise
from ratchet.observe.model_apis import ModelApi, chat, messages, responses
from ratchet.store.usage import call_of

SHORT = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "cache_write_1h_tokens": "ratchet.usage.cache_creation_1h.input_tokens",
    "output_reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
    "web_searches": "ratchet.usage.web_searches",
}
"""Names of genai-prices and of span attributes."""


def counts(attributes: dict[str, Any]) -> dict[str, int]:
    """Counts that are not 0, by their names in genai-prices."""
    return {key: attributes[name] for key, name in SHORT.items() if attributes.get(name)}


OPENAI = {
    "prompt_tokens": 1200,
    "completion_tokens": 90,
    "total_tokens": 1290,
    "prompt_tokens_details": {"cached_tokens": 1024, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 64, "audio_tokens": 0},
}
OF_OPENAI = {
    "input_tokens": 1200,
    "output_tokens": 90,
    "cache_read_tokens": 1024,
    "output_reasoning_tokens": 64,
}

OF_ANTHROPIC = {
    "input_tokens": 2068,
    "output_tokens": 300,
    "cache_read_tokens": 1800,
    "cache_write_tokens": 248,
    "cache_write_1h_tokens": 100,
    "web_searches": 2,
}

REPORTS: list[tuple[str, str, ModelApi, dict[str, Any], dict[str, int]]] = [
    ("openai", "chat", chat, OPENAI, OF_OPENAI),
    ("mistral", "default", chat, OPENAI, OF_OPENAI),
    ("fireworks", "chat", chat, OPENAI, OF_OPENAI),
    (
        "openai",
        "responses",
        responses,
        {
            "input_tokens": 1200,
            "input_tokens_details": {"cached_tokens": 1024},
            "output_tokens": 90,
            "output_tokens_details": {"reasoning_tokens": 64},
            "total_tokens": 1290,
        },
        OF_OPENAI,
    ),
    (
        "openrouter",
        "chat",
        chat,
        {
            "prompt_tokens": 700,
            "completion_tokens": 30,
            "total_tokens": 730,
            "cost": 0.01,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 512},
        },
        {"input_tokens": 700, "output_tokens": 30, "cache_write_tokens": 512},
    ),
    (
        "anthropic",
        "default",
        messages,
        {
            "input_tokens": 20,
            "output_tokens": 300,
            "cache_read_input_tokens": 1800,
            "cache_creation_input_tokens": 248,
            "cache_creation": {"ephemeral_5m_input_tokens": 148, "ephemeral_1h_input_tokens": 100},
            "server_tool_use": {"web_search_requests": 2},
        },
        OF_ANTHROPIC,
    ),
    (
        "deepseek",
        "chat",
        chat,
        {
            "prompt_tokens": 160,
            "completion_tokens": 12,
            "total_tokens": 172,
            "prompt_tokens_details": {"cached_tokens": 128},
            "prompt_cache_hit_tokens": 128,
            "prompt_cache_miss_tokens": 32,
        },
        {"input_tokens": 160, "output_tokens": 12, "cache_read_tokens": 128},
    ),
    (
        "groq",
        "default",
        chat,
        {
            "queue_time": 0.01,
            "prompt_tokens": 40,
            "prompt_time": 0.001,
            "completion_tokens": 8,
            "total_tokens": 48,
            "prompt_tokens_details": {"cached_tokens": 16},
        },
        {"input_tokens": 40, "output_tokens": 8, "cache_read_tokens": 16},
    ),
    (
        "x-ai",
        "chat",
        chat,
        {
            "prompt_tokens": 30,
            "completion_tokens": 9,
            "total_tokens": 139,
            "prompt_tokens_details": {"cached_tokens": 6},
            "completion_tokens_details": {"reasoning_tokens": 100},
        },
        {
            "input_tokens": 30,
            "output_tokens": 109,
            "cache_read_tokens": 6,
            "output_reasoning_tokens": 100,
        },
    ),
    (
        "perplexity",
        "default",
        chat,
        {
            "prompt_tokens": 20,
            "completion_tokens": 400,
            "total_tokens": 420,
            "citation_tokens": 1000,
            "num_search_queries": 7,
            "reasoning_tokens": 5000,
        },
        {
            "input_tokens": 20,
            "output_tokens": 6400,
            "output_reasoning_tokens": 5000,
            "web_searches": 7,
        },
    ),
    (
        "databricks",
        "chat",
        chat,
        {"prompt_tokens": 50, "completion_tokens": 5, "cache_read_input_tokens": 40},
        {"input_tokens": 50, "output_tokens": 5, "cache_read_tokens": 40},
    ),
]


@pytest.mark.parametrize(
    ("provider", "flavor", "api", "usage", "expected"), REPORTS, ids=lambda value: str(value)[:12]
)
def test_a_providers_report_is_read_as_the_price_list_reads_it(
    provider: str, flavor: str, api: ModelApi, usage: dict[str, Any], expected: dict[str, int]
) -> None:
    answer = {"model": "m", "usage": usage}
    assert counts(api.response_attributes(answer)) == expected
    (seller,) = [one for one in providers if one.id == provider]
    _, theirs = seller.extract_usage(answer, api_flavor=flavor)
    known = {key: value for key in SHORT if (value := getattr(theirs, key, None))}
    assert known == expected


# What the price list does not read.


UNLISTED: list[tuple[dict[str, Any], dict[str, int]]] = [
    # DeepSeek's older reports.
    (
        {
            "prompt_tokens": 160,
            "completion_tokens": 12,
            "prompt_cache_hit_tokens": 128,
            "prompt_cache_miss_tokens": 32,
        },
        {"input_tokens": 160, "output_tokens": 12, "cache_read_tokens": 128},
    ),
    # Moonshot.
    (
        {"prompt_tokens": 80, "completion_tokens": 5, "total_tokens": 85, "cached_tokens": 64},
        {"input_tokens": 80, "output_tokens": 5, "cache_read_tokens": 64},
    ),
    # LiteLLM, of Anthropic's models.
    (
        {
            "prompt_tokens": 2068,
            "completion_tokens": 300,
            "cache_read_input_tokens": 1800,
            "cache_creation_input_tokens": 248,
            "prompt_tokens_details": {
                "cached_tokens": 1800,
                "cache_creation_tokens": 248,
                "cache_creation_token_details": {"ephemeral_1h_input_tokens": 100},
            },
            "server_tool_use": {"web_search_requests": 2},
        },
        OF_ANTHROPIC,
    ),
]


@pytest.mark.parametrize(("usage", "expected"), UNLISTED)
def test_cached_tokens_are_read_under_each_name(
    usage: dict[str, Any], expected: dict[str, int]
) -> None:
    assert counts(chat.response_attributes({"usage": usage})) == expected


LAST_CHUNKS: list[dict[str, Any]] = [
    {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
    {
        "choices": [],
        "x_groq": {"id": "r", "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
    },
    {
        "choices": [
            {
                "delta": {},
                "finish_reason": "stop",
                "usage": {"prompt_tokens": 7, "completion_tokens": 2},  # Moonshot
            }
        ]
    },
]


@pytest.mark.parametrize("last", LAST_CHUNKS)
def test_the_usage_of_a_stream_is_read_wherever_it_stands(last: dict[str, Any]) -> None:
    assembly = chat.assembly()
    assembly.add({"choices": [{"delta": {"content": "Hi"}}], "x_groq": {"id": "r"}})
    assembly.add(last)
    found = counts(chat.response_attributes(assembly.response()))
    assert found == {"input_tokens": 7, "output_tokens": 2}


def test_searches_of_the_web_by_openais_responses_are_counted() -> None:
    output = [
        {"type": "web_search_call", "action": {"type": "search", "query": "A"}},
        {"type": "web_search_call", "action": {"type": "open_page", "url": "https://a.org"}},
    ]
    usage = {"input_tokens": 7, "output_tokens": 2}
    found = responses.response_attributes({"model": "gpt-4o", "output": output, "usage": usage})
    assert counts(found)["web_searches"] == 1
    call = call_of({**found, "gen_ai.provider.name": "openai"})
    assert price(call) == pytest.approx(7 * 2.5e-6 + 2 * 10e-6 + 0.01)


def test_what_a_cache_keeps_for_an_hour_and_searches_have_their_own_price() -> None:
    usage = {
        "input_tokens": 1000,
        "output_tokens": 10,
        "cache_creation_input_tokens": 3000,
        "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 2000},
        "server_tool_use": {"web_search_requests": 1},
    }
    found = messages.response_attributes({"model": "claude-sonnet-4-6", "usage": usage})
    call = call_of({**found, "gen_ai.provider.name": "anthropic"})
    assert price(call) == pytest.approx(
        1000 * 3e-6 + 1000 * 3.75e-6 + 2000 * 6e-6 + 10 * 15e-6 + 0.01
    )


# Instrumentations


CACHED = {
    "input_tokens": 2068,
    "output_tokens": 9,
    "cache_read_tokens": 1800,
    "cache_write_tokens": 248,
}
RAW = {"input_tokens": 20, "output_tokens": 9, "cache_read_input_tokens": 1800}
RAW["cache_creation_input_tokens"] = 248


def vercels_fifth(**told: Any) -> dict[str, Any]:
    metadata = {"anthropic": {**told, "cacheCreationInputTokens": 248}}
    return {
        "gen_ai.usage.input_tokens": 20,
        "ai.usage.inputTokens": 20,
        "ai.usage.cachedInputTokens": 1800,
        "ai.response.providerMetadata": json.dumps(metadata),
    }


@pytest.mark.parametrize(
    "said",
    [
        vercels_fifth(usage=RAW),
        vercels_fifth(),
        {
            "ai.usage.inputTokens": 2068,
            "ai.usage.cachedInputTokens": 1800,
            "ai.usage.inputTokenDetails.noCacheTokens": 20,
            "ai.usage.inputTokenDetails.cacheReadTokens": 1800,
            "ai.usage.inputTokenDetails.cacheWriteTokens": 248,
        },
    ],
    ids=["with usage", "without usage", "version 6"],
)
def test_vercels_input_of_anthropics_models_includes_what_was_cached(said: dict[str, Any]) -> None:
    head = {"ai.operationId": "ai.streamText.doStream", "gen_ai.system": "anthropic.messages"}
    found = normalise("ai.streamText.doStream", {**head, **said, "ai.usage.outputTokens": 9})
    assert counts(found) == CACHED


def test_a_step_of_vercels_that_sums_up_calls_is_no_call() -> None:
    outer = {"ai.operationId": "ai.generateText", "ai.usage.inputTokens": 9}
    assert counts(normalise("ai.generateText", outer)) == {}


@pytest.mark.parametrize(
    ("reported", "total"),
    [(20, 2077), (2068, 2077)],
    ids=["of Bedrock", "of a provider whose count includes what was cached"],
)
def test_strands_input_includes_what_was_cached(reported: int, total: int) -> None:
    found = normalise(
        "chat",
        {
            "gen_ai.system": "strands-agents",
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "us.anthropic.claude-sonnet-4-20250514-v1:0",
            "gen_ai.usage.prompt_tokens": reported,
            "gen_ai.usage.input_tokens": reported,
            "gen_ai.usage.completion_tokens": 9,
            "gen_ai.usage.output_tokens": 9,
            "gen_ai.usage.total_tokens": total,
            "gen_ai.usage.cache_read_input_tokens": 1800,
            "gen_ai.usage.cache_write_input_tokens": 248,
        },
    )
    assert counts(found) == CACHED
