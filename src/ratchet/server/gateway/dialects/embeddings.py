"""OpenAI's embeddings: /embeddings. The vectors themselves are not recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.server.gateway.dialects import chat, completions
from ratchet.server.gateway.dialects.bounded_json import count, items, mapping, name
from ratchet.server.gateway.dialects.request_texts import Path, with_texts

__all__ = [
    "OPERATION",
    "assembly",
    "request_attributes",
    "response_attributes",
    "system_texts",
    "with_texts",
]

OPERATION = "embeddings"

_BYTES_PER_FLOAT = 4


def request_attributes(request: Mapping[str, Any]) -> dict[str, Any]:
    """What a request asks for, as attributes of its span."""
    found = completions.request_attributes({**request, "prompt": request.get("input")})
    found.pop("ratchet.prompt_token_ids", None)
    if form := name(request.get("encoding_format")):
        found["gen_ai.request.encoding_formats"] = [form]
    dimensions = count(request.get("dimensions"))
    if dimensions is not None:
        found["gen_ai.embeddings.dimension.count"] = dimensions
    return found


def response_attributes(response: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer says, as attributes of its span."""
    found = chat.response_attributes({**response, "choices": []})
    data = response.get("data")
    if isinstance(data, list) and data:
        vector = mapping(data[0]).get("embedding")
        if isinstance(vector, list):
            found["gen_ai.embeddings.dimension.count"] = len(vector)
        elif isinstance(vector, str):  # base64 of 32-bit floats
            size = len(vector.rstrip("=")) * 3 // 4
            found["gen_ai.embeddings.dimension.count"] = size // _BYTES_PER_FLOAT
    return found


def system_texts(request: Mapping[str, Any]) -> list[tuple[Path, str]]:
    """None: nothing here is a prompt."""
    return []


def assembly() -> EmbeddingAssembly:
    """A place where the pieces of a streamed answer become one."""
    return EmbeddingAssembly()


class EmbeddingAssembly:
    """Nobody streams embeddings; whoever does so is taken at the last word."""

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in a chunk."""
        self._response = {**event, "data": items(event.get("data"))[:1]}

    def response(self) -> dict[str, Any]:
        """The answer as far as it came."""
        return self._response
