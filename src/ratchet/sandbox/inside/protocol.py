"""Frames between a sandbox and the process outside, on a stream socket.

The sandbox receives marshalled dictionaries: they come from the trusted side, and need no import.
It
sends bytes of known length, numbers and text: nothing that it sends is unmarshalled.
"""

from __future__ import annotations

import marshal
import os
import socket
import struct

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any

MARSHAL = 4
"""Version of the format, which Python 3.4 and newer read: the two sides may run different
versions."""

HEADER = struct.Struct("=BI")
"""A frame's header: the kind and the length of its content."""

READY, SETUP_FAILED, REQUEST_ENDED = 1, 2, 3
"""From the sandbox: ready for requests; failed, with the reason; a request's processes are gone."""
LISTENING, DIALED, SETTLED, REACHED = 4, 5, 6, 7
"""From a keeper: a listener (with its descriptor) for a host; a connection (with its port) for a
host; a rollout is over, and whether the same program can run the next; a connection into the
program's own network, if there is one."""
RUN_REQUEST, STOP_REQUEST = 1, 2
"""Sent to the sandbox: run a request (with its descriptors); stop the running request."""
KEEP, SETTLE, REACH = 3, 4, 5
"""Sent to a keeper: the processes that exist now may stay; a rollout is over; connect to a port
of the program's own network."""

END_LAYOUT = struct.Struct("=QBid?")
"""Request number, verdict, exit status as from `os.waitstatus_to_exitcode`, CPU seconds, and
whether it was the last request that this sandbox can run."""

EXITED, TIMED_OUT, TOO_MUCH_MEMORY, TOO_MANY_PROCESSES, TOO_MUCH_SCRATCH, STOPPED = range(6)
"""Why a request's processes ended."""

FRAME = struct.Struct("=16sBQ")
"""Header of an answer: the request's nonce, its kind, and the length of its body."""

ANSWERED, RAISED, OUT_OF_MEMORY, NOT_BYTES = 1, 2, 3, 4

MAX_TEXT_BYTES = 65_536
"""Maximum length of a SETUP_FAILED message in bytes."""


class ControlSocket:
    """The sandbox's end of the control socket."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._socket.fileno()

    def send(self, kind: int, body: bytes = b"", fds: tuple[int, ...] = ()) -> None:
        """Send a frame, with descriptors."""
        frame = HEADER.pack(kind, len(body)) + body
        if fds:
            # A frame this short is sent whole on an idle socket.
            socket.send_fds(self._socket, [frame], fds)
        else:
            self._socket.sendall(frame)

    def receive(self) -> tuple[int, dict[str, Any], list[int]] | None:
        """Receive a frame: kind, content and descriptors; None if the outer process is gone."""
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
    """Write all bytes to a descriptor."""
    for part in parts:
        left = memoryview(part)
        while left:
            left = left[os.write(fd, left) :]
