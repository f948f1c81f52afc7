"""Dialect of Ollama's generations: /api/generate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.observe.model_apis import ollama
from ratchet.observe.model_apis.engine_tokens import no_tokens as choice_tokens
from ratchet.observe.model_apis.engine_tokens import without_tokens as training_request
from ratchet.observe.model_apis.ollama import assembly
from ratchet.observe.model_apis.request_texts import PromptTexts, texts_of, with_texts

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
    messages = [
        {"role": role, "content": request[key]}
        for key, role in (("system", "system"), ("prompt", "user"))
        if isinstance(request.get(key), str) and request[key]
    ]
    return ollama.request_attributes({**request, "messages": messages})


def response_attributes(response: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a response."""
    message = {
        "role": "assistant",
        "content": response.get("response"),
        "thinking": response.get("thinking"),
    }
    answer = {"message": message} if "response" in response else {}
    return ollama.response_attributes({**response, **answer})


def prompt_texts(request: Mapping[str, Any]) -> PromptTexts:
    """The system prompt and the prompt, with their paths."""
    return PromptTexts(
        texts_of(request.get("system"), ("system",), ()),
        texts_of(request.get("prompt"), ("prompt",), ()),
    )
