"""Incremental parser of server-sent events."""

from __future__ import annotations

EVENT_LIMIT = 16_777_216
"""Maximum size of an event, in bytes; longer ones are skipped."""

_PASSED = b":"
"""Replaces the start of a skipped line; as a comment, the rest of the line is ignored."""


class EventStreamParser:
    """Splits a byte stream into events and returns their data.

    Follows https://html.spec.whatwg.org/multipage/server-sent-events.html, except that a lone
    carriage return does not end a line, since no server sends one.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0
        self.skipped = 0
        """Number of events that were too long."""
        self._skipping = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Parse the next bytes.

        Returns:
            Data of the events completed by them.
        """
        self._size += len(piece)
        if self._size > EVENT_LIMIT and not self._skipping:
            self._skipping = True
            self._data.clear()
            self._rest = [_PASSED] if self._rest else []
        lines = piece.split(b"\n")
        if len(lines) == 1:
            if self._skipping:
                self._rest = [_PASSED]
            else:
                self._rest.append(piece)
            return []
        if self._rest:
            lines[0] = b"".join([*self._rest, lines[0]])
        last = lines.pop()
        ended: list[bytes] = []
        for line in lines:
            if line.endswith(b"\r"):
                line = line[:-1]
            if not line:
                if self._skipping:
                    self._skipping = False
                    self.skipped += 1
                elif self._data:
                    ended.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data.clear()
                self._size = len(last)
            elif line.startswith(b"data:") and not self._skipping:
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        if not last:
            self._rest = []
        else:
            self._rest = [_PASSED if self._skipping else last]
        return ended
