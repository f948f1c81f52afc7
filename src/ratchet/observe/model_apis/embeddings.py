"""Dialect of OpenAI's embeddings: /embeddings. The vectors are not recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.observe.model_apis import chat, completions
from ratchet.observe.model_apis.bounded_json import count, items, mapping, name
from ratchet.observe.model_apis.engine_tokens import no_tokens as choice_tokens
from ratchet.observe.model_apis.engine_tokens import without_tokens as training_request
from ratchet.observe.model_apis.request_texts import PromptTexts, with_texts

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

OPERATION = "embeddings"

_BYTES_PER_FLOAT = 4


def request_attributes(request: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a request."""
    attributes = completions.request_attributes({**request, "prompt": request.get("input")})
    if form := name(request.get("encoding_format")):
        attributes["gen_ai.request.encoding_formats"] = [form]
    dimensions = count(request.get("dimensions"))
    if dimensions is not None:
        attributes["gen_ai.embeddings.dimension.count"] = dimensions
    return attributes


def response_attributes(response: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a response."""
    attributes = chat.response_attributes({**response, "choices": []})
    data = response.get("data")
    if isinstance(data, list) and data:
        vector = mapping(data[0]).get("embedding")
        if isinstance(vector, list):
            attributes["gen_ai.embeddings.dimension.count"] = len(vector)
        elif isinstance(vector, str):  # base64 of 32-bit floats
            size = len(vector.rstrip("=")) * 3 // 4
            attributes["gen_ai.embeddings.dimension.count"] = size // _BYTES_PER_FLOAT
    return attributes


def prompt_texts(request: Mapping[str, Any]) -> PromptTexts:
    """None: an embedding request has no prompts."""
    return PromptTexts([], [])


def assembly() -> EmbeddingAssembly:
    """A new assembly for a streamed response."""
    return EmbeddingAssembly()


class EmbeddingAssembly:
    """Keeps the last event: in practice, embeddings are not streamed."""

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event."""
        self._response = {**event, "data": items(event.get("data"))[:1]}

    @property
    def begun(self) -> bool:
        """Whether the model has begun to answer."""
        return bool(self._response)

    @property
    def complete(self) -> bool:
        """Whether an event has come."""
        return bool(self._response)

    def response(self) -> dict[str, Any]:
        """The response so far."""
        return self._response
