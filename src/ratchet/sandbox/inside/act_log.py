"""The list of what a program did beyond its own process, written by its supervisor for its
parent."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from .effects import Effect

ALLOWED, DENIED, COPIED = "allowed", "denied", "copied"
"""What became of an act: it was done, it failed, or it was done to a discarded copy."""
_MOST = 10_000
"""Different acts that are recorded before the next `settle`."""
_EACH = 1_000
"""How many times each of them is written at once."""


class ActLog:
    """Writes each act; frequent repetitions as a number, when asked to.

    Args:
        descriptor: Of the file.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._counts: dict[tuple[str, str, int, str], int] = {}

    def add(self, effect: Effect, end: str) -> None:
        """Record an act, and what became of it."""
        key = (effect.kind, effect.subject, effect.port, end)
        if key not in self._counts and len(self._counts) >= _MOST:
            return
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] <= _EACH:
            self._write("act", *key, 1)

    def settle(self) -> None:
        """Write how often the other acts were repeated, and start again."""
        for key, count in self._counts.items():
            if count > _EACH:
                self._write("act", *key, count - _EACH)
        self._counts.clear()

    def say(self, kind: str, text: str) -> None:
        """Write a sentence: `blind`, why acts are not seen; `failed`, why nothing was started."""
        self._write(kind, text)

    def _write(self, *row: str | int) -> None:
        os.write(self._descriptor, json.dumps(row).encode() + b"\n")
