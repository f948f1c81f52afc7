"""The list of a program's acts beyond its own process, written by its supervisor."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from .effects import Effect

ALLOWED, DENIED, COPIED = "allowed", "denied", "copied"
"""Result of an act: it was done, it failed, or it was done to a copy that is discarded."""
_MOST = 10_000
"""Maximum number of different acts to record until the next `settle`."""
_EACH = 1_000
"""Repetitions of an act that are written at once; `settle` writes how many more there were."""


class ActLog:
    """Writes each act; of frequent repetitions only the number, in `settle`.

    Args:
        descriptor: Of the file.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._counts: dict[tuple[str, str, int, str], int] = {}

    def add(self, effect: Effect, end: str) -> None:
        """Record an act and its result."""
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
        """Write a sentence: why acts are not seen (`blind`) or nothing was started (`failed`)."""
        self._write(kind, text)

    def _write(self, *row: str | int) -> None:
        os.write(self._descriptor, json.dumps(row).encode() + b"\n")
