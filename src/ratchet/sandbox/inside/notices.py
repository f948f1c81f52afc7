"""System calls that the kernel holds until a supervisor has answered: seccomp's notifications.

Source: `Documentation/userspace-api/seccomp_filter.rst` of the kernel, "Userspace Notification".
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct

from . import seccomp
from .syscalls import architecture

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable

_RECEIVE = 0xC0502100
_SEND = 0xC0182101
_ADD_DESCRIPTOR = 0x40182103
_REPLACE = 1
_CONTINUE = 1
_NOTICE = struct.Struct("=QIIiIQ6Q")
_AT_FOLDER = -100
_PATH_BYTES = 4096
_PAGE = 4096


class Notice:
    """A call that waits for its answer.

    Args:
        listener: The descriptor of the filter's listener.
        content: What the kernel tells of the call.
    """

    def __init__(self, listener: int, content: bytes) -> None:
        self._listener = listener
        self.id, self.pid, _, self.number, _, _, *self.arguments = _NOTICE.unpack(content)
        """The notice's number, the calling thread, the call's number and arguments."""

    @property
    def name(self) -> str:
        """Name of the system call."""
        return _names().get(self.number, str(self.number))

    def let(self) -> None:
        """Let the kernel carry out the call."""
        self._send(0, 0, _CONTINUE)

    def refuse(self, error: int) -> None:
        """Fail the call with an errno."""
        self._send(0, -error, 0)

    def done(self, value: int = 0) -> None:
        """Answer in the kernel's place: the call returns this value."""
        self._send(value, 0, 0)

    def replace(self, number: int, descriptor: int, flags: int) -> None:
        """Put an open file of this process in place of a descriptor of the caller.

        Raises:
            OSError: The caller is gone.
        """
        self._add(_REPLACE, number, descriptor, flags)

    def add(self, descriptor: int, flags: int) -> int:
        """Give the caller an open file of this process; return its number there.

        Raises:
            OSError: The caller is gone, or has no room for it.
        """
        return self._add(0, 0, descriptor, flags)

    def _add(self, how: int, number: int, descriptor: int, flags: int) -> int:
        request = bytearray(struct.pack("=QIIII", self.id, how, descriptor, number, flags))
        number_there: int = fcntl.ioctl(self._listener, _ADD_DESCRIPTOR, request)
        return number_there

    def _send(self, value: int, error: int, flags: int) -> None:
        try:
            fcntl.ioctl(self._listener, _SEND, struct.pack("=QqiI", self.id, value, error, flags))
        except OSError:
            pass  # the caller was killed while it waited

    def memory(self, address: int, count: int) -> bytes:
        """Read the caller's memory, which may change meanwhile.

        Raises:
            OSError: It has none there, or is gone.
        """
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as file:
            return os.pread(file.fileno(), count, address)

    def text(self, address: int) -> str:
        """Read a path that ends with a zero byte.

        Raises:
            OSError: There is none.
        """
        got = b""
        while len(got) < _PATH_BYTES:
            # Up to the end of its page, since the next one may not be there.
            part = self.memory(address + len(got), _PAGE - (address + len(got)) % _PAGE)
            end = part.find(b"\0")
            if end >= 0:
                return os.fsdecode(got + part[:end])
            got += part
        raise OSError("a path has no terminating zero byte")

    def path(self, address: int, folder: int = _AT_FOLDER) -> str:
        """Read a path, and make it absolute.

        Args:
            address: Where it is.
            folder: The descriptor of the folder that it is relative to.

        Raises:
            OSError: There is none.
        """
        path = self.text(address)
        for own in ("/proc/self/", "/proc/thread-self/"):  # which names another process here
            if path.startswith(own):
                return f"/proc/{self.pid}/{path.removeprefix(own)}"
        if path.startswith("/"):
            return path
        folder = struct.unpack("=i", struct.pack("=I", folder & 0xFFFFFFFF))[0]
        place = "cwd" if folder == _AT_FOLDER else f"fd/{folder}"
        base = os.readlink(f"/proc/{self.pid}/{place}")
        return os.path.join(base, path) if path else base


def receive(listener: int) -> Notice | None:
    """Receive a pending notice; None if its caller was killed while it waited."""
    content = bytearray(_NOTICE.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, content)
    except OSError:
        return None
    return Notice(listener, bytes(content))


def hand_over(program: bytes, channel: socket.socket, restrict: Callable[[], None]) -> None:
    """Filter this thread, and send the filter's listener over a socket.

    Another thread sends it, which the filter does not hold. Both end when a program is executed.

    Args:
        program: The filter.
        channel: The supervisor has its other end.
        restrict: Called before; what it restricts holds for this thread alone, too.

    Raises:
        OSError: The kernel refused it, or another supervisor listens already.
    """
    import threading

    listeners: list[int] = []
    ready = threading.Event()

    def send() -> None:
        ready.wait()
        if listeners:
            socket.send_fds(channel, [b"!"], listeners)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        restrict()
        listeners.append(seccomp.install(program, listen=True, once=True))
    finally:
        ready.set()
        sender.join()
    os.close(listeners[0])


class _Known:
    names: dict[int, str] | None = None


def _names() -> dict[int, str]:
    if _Known.names is None:
        machine = architecture()
        _Known.names = (
            {} if machine is None else {number: name for name, number in machine[1].items()}
        )
    return _Known.names
