"""Incremental parser of JSON lines, in which Ollama streams its answers."""

from __future__ import annotations

LINE_LIMIT = 16_777_216
"""Maximum length of a line, in bytes; longer ones are skipped."""


class JsonLinesParser:
    """Splits a byte stream into lines."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0
        self.skipped = 0
        """Number of lines that were too long."""

    def feed(self, piece: bytes) -> list[bytes]:
        """Parse the next bytes.

        Returns:
            The lines completed by them.
        """
        first, *lines = piece.split(b"\n")
        ended: list[bytes] = []
        self._keep(first)
        for line in lines:
            if self._size > LINE_LIMIT:
                self.skipped += 1
            elif complete := b"".join(self._rest).strip():
                ended.append(complete)
            self._rest, self._size = [], 0
            self._keep(line)
        return ended

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > LINE_LIMIT:
            self._rest = []
        elif part:
            self._rest.append(part)
