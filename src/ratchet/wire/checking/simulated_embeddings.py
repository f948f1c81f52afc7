"""The simulated model's embeddings: vectors that follow from the texts, as long as the model's."""

from __future__ import annotations

import hashlib
from typing import Any

from ratchet.wire.checking.simulated_answers import MODEL

SIZE = 64
"""Numbers of a vector, where neither the request nor the name of the model tells."""
_SIZES = {
    "text-embedding-3-large": 3072,
    "text-embedding-3-small": 1536,
    "text-embedding-ada-002": 1536,
    "mxbai-embed-large": 1024,
    "mistral-embed": 1024,
    "nomic-embed-text": 768,
    "text-embedding-004": 768,
    "all-minilm": 384,
}
"""A column of a vector store has the size of one model."""


def embeddings(path: str, body: dict[str, Any]) -> Any:
    """The answer to a request: in Ollama's form under its paths, else in OpenAI's."""
    given = body.get("input", body.get("prompt", body.get("content", "")))
    texts = given if isinstance(given, list) and not isinstance(given[0], int) else [given]
    vectors = [_vector(str(text), _size(body)) for text in texts]
    if path.endswith("/api/embeddings"):
        return {"embedding": vectors[0]}
    if path.endswith("/api/embed"):
        return {"model": MODEL, "embeddings": vectors}
    data = [
        {"object": "embedding", "index": number, "embedding": vector}
        for number, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 20, "total_tokens": 20}
    return {"object": "list", "model": MODEL, "data": data, "usage": usage}


def _size(body: dict[str, Any]) -> int:
    asked = body.get("dimensions")
    if isinstance(asked, int) and 0 < asked <= max(_SIZES.values()):
        return asked
    name = str(body.get("model", ""))
    return next((size for part, size in _SIZES.items() if part in name), SIZE)


def _vector(text: str, size: int) -> list[float]:
    """Of about unit length."""
    digest = hashlib.shake_256(text.encode()).digest(size)
    return [round((byte - 127.5) / 127.5 / (size / 3) ** 0.5, 6) for byte in digest]
