"""Server-sent events, taken from a stream of bytes as it passes."""

from __future__ import annotations

EVENT_LIMIT = 16_777_216
"""Bytes of the longest event that is looked at."""

_PASSED = b":"
"""The begun line of an event that is skipped, as a comment: what follows is the rest of it."""


class EventStreamParser:
    """Gathers bytes into events; of an event only its data matters here.

    As https://html.spec.whatwg.org/multipage/server-sent-events.html has it, but for lines that end
    with a lone carriage return, which nobody writes.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0
        self.skipped = 0
        """Events that were too long to look at."""
        self._skipping = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Take in the next bytes.

        Returns:
            The data of the events that ended in them.
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
