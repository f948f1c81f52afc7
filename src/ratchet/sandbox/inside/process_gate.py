"""A limit on processes and threads that also holds for root: the kernel asks before each new one.

RLIMIT_NPROC does not limit root, and counts a user's processes outside the sandbox too. So a
seccomp
filter holds the calls that create processes until the watcher has counted and answered.
"""

from __future__ import annotations

import errno
import os
import socket

from . import notices, policy, seccomp

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable


def program() -> bytes:
    """The filter of all gates; empty on an unknown architecture."""
    try:
        return seccomp.compiled(policy.new_processes())
    except OSError:
        return b""


class ProcessGate:
    """The watcher's end of a gate. Create it before the fork, and `enter` it in the child.

    Args:
        compiled: The result of `program`.
    """

    def __init__(self, compiled: bytes) -> None:
        self._program = compiled
        self._ours, self._theirs = socket.socketpair()
        self._listener = -1

    def enter(self) -> None:
        """Install the filter, in the process to be limited."""
        if not self._program:
            return
        try:
            listener = seccomp.install(self._program, listen=True)
        except OSError:
            return  # an old kernel, or an outer filter listens: processes are counted instead
        try:
            socket.send_fds(self._theirs, [b"!"], [listener])
        finally:
            os.close(listener)
            self._theirs.close()
            self._ours.close()

    def forked(self) -> None:
        """Close the child's end, in the watcher after the fork."""
        self._theirs.close()

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._ours.fileno() if self._listener < 0 else self._listener

    def answer(self, may: Callable[[], bool]) -> bool:
        """Answer a pending request.

        Args:
            may: Returns whether one more process is allowed.

        Returns:
            Whether `fileno` has changed.
        """
        if self._listener < 0:
            _, fds, _, _ = socket.recv_fds(self._ours, 1, 1)
            self._listener = fds[0] if fds else -1
            return True
        notice = notices.receive(self._listener)
        if notice is None:
            return False
        if may():
            notice.let()
        else:
            notice.refuse(errno.EAGAIN)
        return False

    def close(self) -> None:
        """Stop answering: pending and later calls fail as not implemented."""
        self._ours.close()
        if self._listener >= 0:
            os.close(self._listener)
            self._listener = -1
