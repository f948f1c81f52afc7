"""Requests of OpenAI's API: the fields that the policy server reads."""

from __future__ import annotations

from typing import Any

import msgspec

from ratchet.models.policy.generation import OWN_DISTRIBUTION
from ratchet.models.policy.sampling import SamplingRequest

MAX_CHOICES = 128
MAX_TOP = 20
"""Maximum number of most probable tokens that a request may ask for."""


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a stream."""

    include_usage: bool = False


class AnswerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Fields common to chat and completion requests. Unknown fields are ignored."""

    model: str
    n: int = 1
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[int, float] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = False
    ignore_eos: bool = False
    response_format: dict[str, Any] | None = None
    min_p: float | None = None

    def check(self) -> tuple[str, str] | None:
        """The field that cannot be served, and why; None if all can be."""
        format = (self.response_format or {}).get("type", "text")
        sampling = self.sampling()
        tests: tuple[tuple[str, bool, str], ...] = (
            (
                "response_format",
                format != "text",
                f"The format {format!r} is not supported by this model; leave response_format out.",
            ),
            ("n", not 1 <= self.n <= MAX_CHOICES, f"n must be between 1 and {MAX_CHOICES}."),
            ("min_p", bool(self.min_p), "min_p is not supported."),
            ("max_tokens", (self.max_tokens or 0) < 0, "max_tokens must not be negative."),
            (
                "temperature",
                not 0 <= sampling.temperature <= 100,
                "temperature must be between 0 and 100.",
            ),
            ("top_p", not 0 < sampling.top_p <= 1, "top_p must be above 0 and at most 1."),
            (
                "repetition_penalty",
                sampling.repetition_penalty <= 0,
                "repetition_penalty must be above 0.",
            ),
            ("stop", len(self.stops()) > 16, "stop may have at most 16 texts."),
        )
        return next(((field, why) for field, wrong, why in tests if wrong), None)

    def stops(self) -> list[str]:
        """Texts that end an answer."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    def sampling(self) -> SamplingRequest:
        """The sampling settings of the request."""

        def given(value: Any, default: Any) -> Any:
            return default if value is None else value

        own = OWN_DISTRIBUTION
        return SamplingRequest(
            temperature=given(self.temperature, own.temperature),
            top_p=given(self.top_p, own.top_p),
            top_k=max(0, given(self.top_k, own.top_k)),
            frequency_penalty=given(self.frequency_penalty, 0.0),
            presence_penalty=given(self.presence_penalty, 0.0),
            repetition_penalty=given(self.repetition_penalty, 1.0),
            logit_bias=self.logit_bias or {},
        )


class ChatRequest(AnswerRequest, frozen=True, kw_only=True):
    """A request of /v1/chat/completions."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = False
    top_logprobs: int | None = None
    prompt_cache_key: str | None = None
    """Distinguishes conversations that have the same messages so far."""

    def check(self) -> tuple[str, str] | None:
        """See the base class."""
        if self.tools and self.tool_choice not in (None, "auto", "none"):
            return "tool_choice", "This model cannot be forced to call a tool; use auto or none."
        if not 0 <= (self.top_logprobs or 0) <= MAX_TOP:
            return "top_logprobs", f"top_logprobs must be between 0 and {MAX_TOP}."
        return super().check()


class CompletionRequest(AnswerRequest, frozen=True, kw_only=True):
    """A request of /v1/completions."""

    prompt: Any
    """A text or its ids, or a list of these."""
    echo: bool | None = False
    logprobs: int | None = None
    """How many of the most probable tokens are returned for each; 0 returns only the chosen
    token's."""

    def check(self) -> tuple[str, str] | None:
        """See the base class."""
        if not 0 <= (self.logprobs or 0) <= MAX_TOP:
            return "logprobs", f"logprobs must be between 0 and {MAX_TOP}."
        if self.stream and self.echo:
            return "echo", "echo is not supported when streaming."
        return super().check()

    def prompts(self) -> list[str] | list[list[int]]:
        """The prompts, of which a request may have several.

        Raises:
            ValueError: They are none.
        """
        prompt = self.prompt
        if isinstance(prompt, str) or (isinstance(prompt, list) and prompt and _is_id(prompt[0])):
            prompt = [prompt]
        try:
            texts: list[str] = msgspec.convert(prompt, list[str])
        except msgspec.ValidationError:
            try:
                return msgspec.convert(prompt, list[list[int]])
            except msgspec.ValidationError:
                raise ValueError(
                    "prompt must be a text, a list of ids, or a list of these."
                ) from None
        return texts


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class AdapterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of /v1/load_lora_adapter and /v1/unload_lora_adapter."""

    lora_name: str
    lora_path: str = ""
