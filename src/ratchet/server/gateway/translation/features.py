"""What happens with each field of a request in another API: translated, left out, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

_ADVICE = "leave it out, or name a model of the API that the client uses"
_CHAT_ADVICE = {
    "tools": "declare functions under `tools`, and answer calls in messages with the role tool",
    "stateless": "send the earlier turns in `input`",
}


class Untranslatable(Exception):
    """A request uses features that the other API lacks.

    Args:
        refused: What to do about each feature, by its name.
    """

    def __init__(self, refused: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{feature} ({advice})" for feature, advice in refused.items()))


class Findings:
    """What a translation could not carry over."""

    def __init__(self) -> None:
        self._refused: dict[str, str] = {}
        self._left_out: dict[str, None] = {}

    def refuse(self, feature: str, advice: str = _ADVICE) -> None:
        """Note a feature that would change the answer and has no equivalent."""
        self._refused.setdefault(feature, advice)

    def leave_out(self, feature: str) -> None:
        """Note a feature that would not change the answer and has no equivalent."""
        self._left_out[feature] = None

    @property
    def left_out(self) -> list[str]:
        """Names of what was left out."""
        return list(self._left_out)

    def check(self) -> None:
        """Raise if anything was refused.

        Raises:
            Untranslatable: It names everything that was.
        """
        if self._refused:
            raise Untranslatable(self._refused)


class RefusedField(msgspec.Struct, frozen=True):
    """A field that is refused unless its value asks for nothing."""

    nothing: tuple[Any, ...] = ()
    """Values that ask for nothing, in addition to null and empty ones."""
    advice: str = _ADVICE


class RequestFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of one API's request."""

    translated: frozenset[str]
    left_out: frozenset[str]
    refused: dict[str, RefusedField]

    def sort(self, request: Mapping[str, Any], findings: Findings) -> None:
        """Note the fields of a request that are not translated; unknown ones are refused."""
        for key, value in request.items():
            if value is None or key in self.translated:
                continue
            if key in self.left_out:
                findings.leave_out(key)
                continue
            refusal = self.refused.get(key, _UNKNOWN)
            asks_nothing = value in refusal.nothing or (not value and value != 0)
            if not asks_nothing and not (value is False and False in refusal.nothing):
                shown = f"{key}={value}" if isinstance(value, (int, float, str)) else key
                findings.refuse(shown[:80], refusal.advice)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UNKNOWN = RefusedField()
_MEDIUM = RefusedField(("medium",))

CHAT = RequestFields(
    translated=_words(
        "messages model stream stream_options max_tokens max_completion_tokens temperature top_p"
        " stop tools tool_choice parallel_tool_calls response_format reasoning_effort"
    ),
    left_out=_words(
        "seed user safety_identifier service_tier store metadata prediction prompt_cache_key"
        " prompt_cache_options prompt_cache_retention"
    ),
    refused={
        "n": RefusedField((1,), "send the call once for each answer"),
        "logprobs": RefusedField((False,)),
        "top_logprobs": RefusedField((0,)),
        "frequency_penalty": RefusedField((0,)),
        "presence_penalty": RefusedField((0,)),
        "modalities": RefusedField((["text"],)),
        "verbosity": _MEDIUM,
        "functions": RefusedField(advice=_CHAT_ADVICE["tools"]),
        "function_call": RefusedField(advice=_CHAT_ADVICE["tools"]),
    },
)
"""OpenAI's chat completions, on the way to Anthropic."""

RESPONSES = RequestFields(
    translated=_words(
        "input instructions model stream max_output_tokens temperature top_p tools tool_choice"
        " parallel_tool_calls text reasoning include"
    ),
    left_out=_words(
        "user safety_identifier service_tier store metadata prompt_cache_key prompt_cache_options"
        " prompt_cache_retention stream_options max_tool_calls background_options"
        " image"
    ),
    refused={
        "background": RefusedField((False,), "wait for the answer"),
        "truncation": RefusedField(("disabled",), "shorten `input` before the call"),
        "top_logprobs": RefusedField((0,)),
        "previous_response_id": RefusedField(advice=_CHAT_ADVICE["stateless"]),
        "conversation": RefusedField(advice=_CHAT_ADVICE["stateless"]),
        "prompt": RefusedField(advice="send the prompt's text in `instructions`"),
    },
)
"""OpenAI's responses, on the way to Anthropic."""

MESSAGES = RequestFields(
    translated=_words(
        "messages system model stream max_tokens temperature top_p stop_sequences tools tool_choice"
        " output_config output_format thinking"
    ),
    left_out=_words("metadata service_tier speed cache_control diagnostics user_profile_id"),
    refused={},
)
"""Anthropic's messages, on the way to OpenAI."""
