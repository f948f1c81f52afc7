"""Token usage that the answers of model APIs report, as span attributes.

Compatible servers report the same counts under names and in places of their own. The tables agree
with `genai_prices.extract_usage` where that knows a provider's report, which a test compares; it
takes too much memory for the process of an agent, and does not know what is reported in streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.observe.model_apis.bounded_json import count, mapping

INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE = "gen_ai.usage.cache_creation.input_tokens"
REASONING = "gen_ai.usage.reasoning.output_tokens"
CACHE_WRITE_1H = "ratchet.usage.cache_creation_1h.input_tokens"
"""Of the tokens written to a cache, those kept for an hour, which cost more."""
WEB_SEARCHES = "ratchet.usage.web_searches"
"""Web searches that the provider made and charges for."""

_NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    INPUT_TOKENS: (("prompt_tokens",), ("input_tokens",)),
    OUTPUT_TOKENS: (("completion_tokens",), ("output_tokens",)),
    CACHE_READ: (
        ("prompt_tokens_details", "cached_tokens"),
        ("input_tokens_details", "cached_tokens"),
        ("input_tokens_details", "cache_read_input_tokens"),  # Perplexity's responses
        ("prompt_cache_hit_tokens",),  # DeepSeek
        ("cached_tokens",),  # Moonshot
        ("cached_prompt_text_tokens",),  # older xAI
        ("cache_read_input_tokens",),  # Databricks, LiteLLM
    ),
    CACHE_WRITE: (
        ("prompt_tokens_details", "cache_write_tokens"),
        ("input_tokens_details", "cache_write_tokens"),
        ("prompt_tokens_details", "cache_creation_tokens"),  # LiteLLM
        ("cache_creation_input_tokens",),  # LiteLLM
    ),
    CACHE_WRITE_1H: (
        (  # LiteLLM
            "prompt_tokens_details",
            "cache_creation_token_details",
            "ephemeral_1h_input_tokens",
        ),
    ),
    REASONING: (
        ("completion_tokens_details", "reasoning_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
        ("reasoning_tokens",),  # Perplexity, older xAI
    ),
    WEB_SEARCHES: (
        ("num_search_queries",),  # Perplexity
        ("server_tool_use", "web_search_requests"),  # LiteLLM, OpenRouter
        ("tool_calls_details", "search_web", "invocation"),  # Perplexity's responses
    ),
}
"""Paths of each count in the usage of OpenAI's APIs and of those compatible with them."""

_OF_MESSAGES: dict[str, tuple[str, ...]] = {
    INPUT_TOKENS: ("input_tokens",),
    OUTPUT_TOKENS: ("output_tokens",),
    CACHE_READ: ("cache_read_input_tokens",),
    CACHE_WRITE: ("cache_creation_input_tokens",),
    CACHE_WRITE_1H: ("cache_creation", "ephemeral_1h_input_tokens"),
    REASONING: ("output_tokens_details", "thinking_tokens"),
    WEB_SEARCHES: ("server_tool_use", "web_search_requests"),
}
"""Path of each count in the usage of Anthropic's messages."""


def _by_first(
    paths: Mapping[str, Sequence[tuple[str, ...]]],
) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Attributes with the rest of their paths, by the first name of the path."""
    paths_by_first: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for attribute, alternatives in paths.items():
        for first, *tail in alternatives:
            paths_by_first.setdefault(first, []).append((attribute, tuple(tail)))
    return paths_by_first


_READ = _by_first(_NAMES)


def usage_attributes(reported: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of the usage that OpenAI's APIs, or compatible ones, report.

    Args:
        reported: The usage of an answer; counts that are missing are omitted.
    """
    counts: dict[str, int] = {}
    for key in reported.keys() & _READ.keys():
        for attribute, path in _READ[key]:
            value = reported[key]
            for inner in path:
                value = value.get(inner) if value.__class__ is dict else None
            # A server that reports a count twice, for clients of two APIs, means it once.
            if count(value) is not None and value >= counts.get(attribute, 0):
                counts[attribute] = value
    beside = counts.get(REASONING, 0)
    if "citation_tokens" in reported:  # Perplexity bills three counts that exclude each other
        cited = count(reported["citation_tokens"]) or 0
        counts[OUTPUT_TOKENS] = counts.get(OUTPUT_TOKENS, 0) + beside + cited
    elif beside and count(reported.get("total_tokens")) == (
        counts.get(INPUT_TOKENS, 0) + counts.get(OUTPUT_TOKENS, 0) + beside
    ):
        # xAI counts reasoning beside the output, as the total shows.
        counts[OUTPUT_TOKENS] = counts.get(OUTPUT_TOKENS, 0) + beside
    return counts


def usage_of_messages(reported: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of the usage that Anthropic's API reports.

    Args:
        reported: The usage of an answer; counts that are missing are omitted.
    """
    counts = {
        attribute: value
        for attribute, path in _OF_MESSAGES.items()
        if (value := _at(reported, path)) is not None
    }
    if INPUT_TOKENS in counts:  # OpenTelemetry's count includes cached tokens, Anthropic's does not
        counts[INPUT_TOKENS] += counts.get(CACHE_READ, 0) + counts.get(CACHE_WRITE, 0)
    return counts


def usage_of_chunk(event: Mapping[str, Any]) -> dict[str, Any]:
    """The usage in an answer, or in a chunk of it; empty without one."""
    reported = mapping(event.get("usage"))
    if not reported and "x_groq" in event:
        reported = mapping(mapping(event["x_groq"]).get("usage"))
    return reported


def _at(value: Mapping[str, Any], path: tuple[str, ...]) -> int | None:
    """The count at a path."""
    for key in path[:-1]:
        value = mapping(value.get(key))
    return count(value.get(path[-1]))
