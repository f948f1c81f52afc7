"""Small files in the GGUF format."""

from __future__ import annotations

import struct
from collections.abc import Mapping

ABOUT: Mapping[str, int | str | list[str]] = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "tokenizer.ggml.tokens": ["a", "bc"],
    "llama.context_length": 512,
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
}


def gguf(about: Mapping[str, int | str | list[str]] = ABOUT, version: int = 3) -> bytes:
    """A file with metadata and two tensors of 64 bytes each."""
    data = b"GGUF" + struct.pack("<IQQ", version, 2, len(about))
    for key, value in about.items():
        data += text(key)
        if isinstance(value, int):
            data += struct.pack("<II", 4, value)
        elif isinstance(value, str):
            data += struct.pack("<I", 8) + text(value)
        else:
            data += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    for number in range(2):
        data += text(f"tensor{number}") + struct.pack("<IQIQ", 1, 16, 0, 64 * number)
    return data + bytes(-len(data) % 32) + bytes(128)


def text(value: str) -> bytes:
    """A string in the format."""
    return struct.pack("<Q", len(value)) + value.encode()
