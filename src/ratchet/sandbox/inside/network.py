"""A separate network that contains only this process and its children.

Bubblewrap always creates one. Without it, the kernel may still allow an unprivileged process to do
so
(user namespaces: `user_namespaces(7)`); many containers and some distributions do not.
"""

from __future__ import annotations

import os
import struct

from . import kernel
from .syscalls import architecture

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_UP = 1


def enter_own_network() -> bool:
    """Move this single-threaded process into its own network, if the kernel allows it.

    Its user stays the same; the loopback interface works and leads nowhere else.

    Returns:
        Whether it moved. If not, nothing has changed.
    """
    # Try in a child process first: a partial move cannot be undone.
    trying = os.fork()
    if not trying:
        try:
            _move()
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(trying, 0)
    if status:
        return False
    _move()
    return True


def _move() -> None:
    """Make the move.

    Raises:
        OSError: The kernel refused a step.
    """
    found = architecture()
    if found is None:
        raise OSError("system calls of this machine are not known")
    user, group = os.geteuid(), os.getegid()
    kernel.dumpable(True)  # otherwise root owns this process's own files in /proc
    kernel.system_call(found[1]["unshare"], _NEW_USER | _NEW_NETWORK)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    _raise_loopback()


def _raise_loopback() -> None:
    import fcntl
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH22x", b"lo", 0)
        flags = struct.unpack("16sH22x", fcntl.ioctl(any_socket, _GET_FLAGS, request))[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH22x", b"lo", flags | _UP))
