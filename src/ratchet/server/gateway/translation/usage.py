"""Token counts and reasons to stop, between the APIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.observe.model_apis.bounded_json import count, mapping

FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
"""Finish reasons of chat completions, by the stop reasons of messages."""

STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
"""Stop reason in the messages API, by finish reason of chat completions."""


def chat_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Usage of chat completions from that of messages, which counts cached tokens separately."""
    read, written = _of(usage, "cache_read_input_tokens"), _of(usage, "cache_creation_input_tokens")
    prompt = _of(usage, "input_tokens") + read + written
    completion = _of(usage, "output_tokens")
    thinking = _of(usage, "output_tokens_details", "thinking_tokens")
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "completion_tokens_details": {"reasoning_tokens": thinking},
    }


def message_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Usage of messages from that of chat completions."""
    read = _of(usage, "prompt_tokens_details", "cached_tokens")
    written = _of(usage, "prompt_tokens_details", "cache_write_tokens")
    reasoning = _of(usage, "completion_tokens_details", "reasoning_tokens")
    return {
        "input_tokens": max(0, _of(usage, "prompt_tokens") - read - written),
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": _of(usage, "completion_tokens"),
        "output_tokens_details": {"thinking_tokens": reasoning},
    }


def response_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """The usage of chat completions, in the form of the Responses API."""
    prompt = mapping(usage.get("prompt_tokens_details"))
    completion = mapping(usage.get("completion_tokens_details"))
    return {
        "input_tokens": _of(usage, "prompt_tokens"),
        "input_tokens_details": {
            "cached_tokens": _of(prompt, "cached_tokens"),
            "cache_write_tokens": _of(prompt, "cache_write_tokens"),
        },
        "output_tokens": _of(usage, "completion_tokens"),
        "output_tokens_details": {"reasoning_tokens": _of(completion, "reasoning_tokens")},
        "total_tokens": _of(usage, "total_tokens"),
    }


def _of(usage: Mapping[str, Any], *path: str) -> int:
    """The count at a path; 0 without one."""
    value: Any = usage
    for key in path:
        value = mapping(value).get(key)
    return count(value) or 0
