"""What a sandbox and the process outside say to each other, as frames on a stream socket.

Into the sandbox go marshalled dictionaries: they come from the trusted side, and need no import.
Out of it come bytes of known length, numbers, and text: nothing that comes out is unmarshalled.
"""

from __future__ import annotations

import marshal
import os
import socket
import struct

TYPE_CHECKING = False  # `typing` takes long to import
if TYPE_CHECKING:
    from typing import Any

HEADER = struct.Struct("=BI")
"""Kind and length of what follows."""

READY, FAILED, ENDED = 1, 2, 3
"""Out: it can take requests; it cannot, and why; a request's processes are gone."""
RUN, STOP = 1, 2
"""In: run a request (its descriptors come along); end the one that runs."""

END = struct.Struct("=QBid?")
"""Number of the request, verdict, exit status as `os.waitstatus_to_exitcode` has it, CPU seconds,
and whether that was the last request that this sandbox can take."""

EXITED, TIMED_OUT, TOO_MUCH_MEMORY, TOO_MANY_PROCESSES, TOO_MUCH_SCRATCH, STOPPED = range(6)
"""Why a request's processes ended."""

FRAME = struct.Struct("=16sBQ")
"""Of an answer: the request's nonce, what it is, and the length of the body that follows."""

ANSWERED, RAISED, OUT_OF_MEMORY, NOT_BYTES = 1, 2, 3, 4

MOST_TEXT = 65_536
"""Bytes of a FAILED message."""


class ControlSocket:
    """The inner end of the control socket."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)

    def fileno(self) -> int:
        """The descriptor, to wait on."""
        return self._socket.fileno()

    def send(self, kind: int, body: bytes = b"", fds: tuple[int, ...] = ()) -> None:
        """Send a frame, with descriptors."""
        frame = HEADER.pack(kind, len(body)) + body
        if fds:
            # So short a frame on an idle socket goes out whole.
            socket.send_fds(self._socket, [frame], fds)
        else:
            self._socket.sendall(frame)

    def receive(self) -> tuple[int, dict[str, Any], list[int]] | None:
        """The next frame: kind, content and descriptors; None when the other side is gone."""
        try:
            head, fds, _, _ = socket.recv_fds(self._socket, HEADER.size, 8)
        except OSError:
            return None
        try:
            head += self._exactly(HEADER.size - len(head)) if head else b""
            if not head:
                return None
            kind, length = HEADER.unpack(head)
            return kind, marshal.loads(self._exactly(length)) if length else {}, fds  # noqa: S302
        except (EOFError, OSError):
            for fd in fds:
                os.close(fd)
            return None

    def _exactly(self, count: int) -> bytes:
        got = bytearray()
        while len(got) < count:
            part = self._socket.recv(count - len(got))
            if not part:
                raise EOFError
            got += part
        return bytes(got)


def write_all(fd: int, *parts: bytes) -> None:
    """Write all of it to a descriptor."""
    for part in parts:
        left = memoryview(part)
        while left:
            left = left[os.write(fd, left) :]
