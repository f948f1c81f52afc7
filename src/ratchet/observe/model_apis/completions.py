"""Dialect of OpenAI's text completions: /completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.observe.model_apis import chat, parts
from ratchet.observe.model_apis.bounded_json import (
    MAX_ITEMS,
    MAX_TOKENS,
    GrowingText,
    bounded_text,
    items,
    json_text,
    mapping,
    name,
    numbers,
)
from ratchet.observe.model_apis.engine_tokens import ChoiceTokens, for_training
from ratchet.observe.model_apis.request_texts import PromptTexts, TextPath, with_texts
from ratchet.observe.model_apis.settings import settings

__all__ = [
    "OPERATION",
    "assembly",
    "choice_tokens",
    "prompt_texts",
    "request_attributes",
    "response_attributes",
    "training_request",
    "with_texts",
]

OPERATION = "text_completion"


def request_attributes(request: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a request."""
    attributes = settings(request)
    prompt = request.get("prompt")
    if prompt is None:
        return attributes
    prompts = _prompts(prompt)
    attributes["gen_ai.input.messages"] = json_text(
        [{"role": "user", "parts": [_prompt(prompt)]} for prompt in prompts]
    )
    return attributes


def response_attributes(response: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a response."""
    choices = [mapping(choice) for choice in items(response.get("choices"))]
    # Everything except the choices is as in chat completions.
    attributes = chat.response_attributes({**response, "choices": []})
    if not choices:
        return attributes
    attributes["gen_ai.output.messages"] = json_text([_answer(choice) for choice in choices])
    reasons = [name(choice.get("finish_reason")) for choice in choices]
    if any(reasons):
        attributes["gen_ai.response.finish_reasons"] = reasons
    return attributes


def training_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request for tokens, sampled from the model's own distribution."""
    return for_training(request, 1)


def choice_tokens(response: Mapping[str, Any]) -> list[ChoiceTokens]:
    """Tokens of each choice."""
    per_choice = []
    for choice in items(response.get("choices")):
        choice = mapping(choice)
        prompt = choice.get("prompt_token_ids", response.get("prompt_token_ids"))
        per_choice.append(
            ChoiceTokens(
                numbers(prompt, int),
                numbers(choice.get("token_ids"), int),
                numbers(mapping(choice.get("logprobs")).get("token_logprobs"), float),
                name(choice.get("finish_reason")),
            )
        )
    return per_choice


def prompt_texts(request: Mapping[str, Any]) -> PromptTexts:
    """The prompts, with their paths: a completion has no other instructions."""
    prompt = request.get("prompt")
    if isinstance(prompt, str):
        return PromptTexts([(("prompt",), prompt)], [])
    texts: list[tuple[TextPath, str]] = [
        (("prompt", position), text)
        for position, text in enumerate(items(prompt))
        if isinstance(text, str)
    ]
    return PromptTexts(texts, [])


def assembly() -> chat.ChatAssembly:
    """A new assembly for a streamed response."""
    return chat.ChatAssembly(_Choice)


class _Choice:
    """One choice of a streamed response."""

    def __init__(self) -> None:
        self.text = GrowingText()
        self.finish_reason = ""
        self.lists: dict[str, list[Any]] = {}

    def add(self, choice: dict[str, Any]) -> None:
        self.text.add(choice.get("text"))
        self.finish_reason = name(choice.get("finish_reason")) or self.finish_reason
        for key, more in (
            ("prompt_token_ids", choice.get("prompt_token_ids")),
            ("token_ids", choice.get("token_ids")),
            ("logprobs", mapping(choice.get("logprobs")).get("token_logprobs")),
        ):
            if isinstance(more, list):
                collected = self.lists.setdefault(key, [])
                if len(collected) <= MAX_TOKENS:
                    collected.extend(more)

    def whole(self) -> dict[str, Any]:
        choice: dict[str, Any] = {"text": self.text.text(), "finish_reason": self.finish_reason}
        choice.update(self.lists)
        if "logprobs" in choice:
            choice["logprobs"] = {"token_logprobs": choice["logprobs"]}
        return choice


def _prompts(prompt: Any) -> list[Any]:
    """The prompts of a request: one text, a list of texts, token ids, or lists of token ids."""
    if not isinstance(prompt, list):
        return [prompt]
    if prompt and all(
        isinstance(single_prompt, (str, list)) for single_prompt in prompt[:MAX_ITEMS]
    ):
        return prompt[:MAX_ITEMS]
    return [prompt]


def _prompt(prompt: Any) -> parts.Part:
    if isinstance(prompt, list):
        return parts.other("tokens", count=len(prompt))
    return parts.text(prompt)


def _answer(choice: dict[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {
        "role": "assistant",
        "parts": [{"type": "text", "content": bounded_text(choice.get("text", ""))}],
    }
    if reason := name(choice.get("finish_reason")):
        converted["finish_reason"] = reason
    return converted
