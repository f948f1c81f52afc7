"""Remembers the results of redaction by text, so that a text sent repeatedly is searched once."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

MAX_TEXTS = 32_768
MAX_CHARACTERS = 16 * 1024 * 1024
"""Bounds: texts, and characters of those in which something was redacted."""

CLEAN = ""
"""Result for a text in which nothing was found."""


class RedactionMemory:
    """Results of redaction by a keyed hash of the text. Thread-safe.

    No text is kept unless it is redacted, and without the key, which is random, nobody can tell
    from a hash whether a guessed text was there.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._results: dict[bytes, str] = {}
        self._characters = 0

    def keys(self, texts: Sequence[bytes], field: str = "") -> list[bytes]:
        """Keys of texts.

        Args:
            texts: UTF-8.
            field: Where the texts are, if the result depends on it.
        """
        begun = self._key + field.encode("utf-8", "surrogatepass") + b"\0"
        return [hashlib.sha256(begun + text).digest() for text in texts]

    def get(self, key: bytes) -> str | None:
        """The result for a text, `CLEAN` if nothing was found; None if it is not remembered."""
        return self._results.get(key)

    def put(self, key: bytes, result: str) -> None:
        """Remember the result for a text."""
        if len(result) > MAX_CHARACTERS // 16:
            return
        if len(self._results) >= MAX_TEXTS or self._characters > MAX_CHARACTERS:
            # Not emptied: another thread may be reading it.
            self._results, self._characters = {}, 0
        self._results[key] = result
        self._characters += len(result)
