"""A limit on processes and threads that holds for root too: the kernel asks before each new one.

RLIMIT_NPROC does nothing for root, and for others counts what they run elsewhere. So the calls that
make processes are held by a seccomp filter until the watcher has counted and answered.
Source: `Documentation/userspace-api/seccomp_filter.rst` of the kernel, "Userspace Notification".
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct

from . import policy, seccomp

TYPE_CHECKING = False  # `typing` takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable

_RECEIVE = 0xC0502100
_SEND = 0xC0182101
_CONTINUE = 1
_ASKED_BYTES = 80


def program() -> bytes:
    """The filter of all gates; empty where system calls are not known."""
    try:
        return seccomp.compiled(policy.new_processes())
    except OSError:
        return b""


class ProcessGate:
    """The watcher's end. Make it before the fork, and `enter` in the child.

    Args:
        compiled: What `program` returned.
    """

    def __init__(self, compiled: bytes) -> None:
        self._program = compiled
        self._ours, self._theirs = socket.socketpair()
        self._listener = -1

    def enter(self) -> None:
        """In the process to be limited: from here on, what it starts is asked about."""
        if not self._program:
            return
        try:
            listener = seccomp.install(self._program, listen=True)
        except OSError:
            return  # the kernel is too old, or something outside listens already; it is counted
        try:
            socket.send_fds(self._theirs, [b"!"], [listener])
        finally:
            os.close(listener)
            self._theirs.close()
            self._ours.close()

    def forked(self) -> None:
        """In the watcher, after the fork."""
        self._theirs.close()

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._ours.fileno() if self._listener < 0 else self._listener

    def answer(self, may: Callable[[], bool]) -> bool:
        """Answer what was asked.

        Args:
            may: Whether there may be one more.

        Returns:
            Whether `fileno` is another one now.
        """
        if self._listener < 0:
            _, fds, _, _ = socket.recv_fds(self._ours, 1, 1)
            self._listener = fds[0] if fds else -1
            return True
        asked = bytearray(_ASKED_BYTES)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, asked)
        except OSError:
            return False  # it was killed while it waited
        number = struct.unpack_from("=Q", asked)[0]
        if may():
            told = struct.pack("=QqiI", number, 0, 0, _CONTINUE)
        else:
            told = struct.pack("=QqiI", number, 0, -errno.EAGAIN, 0)
        try:
            fcntl.ioctl(self._listener, _SEND, told)
        except OSError:
            pass
        return False

    def close(self) -> None:
        """No more answers: what still asks is told that there is no such call."""
        self._ours.close()
        if self._listener >= 0:
            os.close(self._listener)
            self._listener = -1
