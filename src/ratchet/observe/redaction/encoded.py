"""Encoded: words that are text in base64, and what they say."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

_WORD = re.compile(r"[A-Za-z0-9+/_\-]{16,}={0,2}")

LONGEST = 65_536
"""Characters of what is decoded."""

_LOOKED_AT = 32
"""Characters that tell whether it is text at all; images and sounds are not decoded further."""


def words(text: str) -> Iterator[tuple[int, int, str]]:
    """Where words in base64 begin and end, and what each says; those that say no text are not."""
    for match in _WORD.finditer(text):
        said = _decoded(match[0])
        if said is not None:
            yield match.start(), match.end(), said


def _decoded(word: str) -> str | None:
    body = word.rstrip("=").replace("-", "+").replace("_", "/")
    if len(body) > LONGEST:
        return None
    try:
        if not _is_text(_bytes(body[:_LOOKED_AT])):
            return None
        said = _bytes(body)
        return said.decode("ascii") if _is_text(said) else None
    except ValueError:
        return None


def _bytes(body: str) -> bytes:
    whole = body[: len(body) - 1] if len(body) % 4 == 1 else body
    return base64.b64decode(whole + "=" * (-len(whole) % 4))


def _is_text(said: bytes) -> bool:
    return said.isascii() and all(byte >= 32 or byte in (9, 10, 13) for byte in said)
