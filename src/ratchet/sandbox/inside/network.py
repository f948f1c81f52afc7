"""A network of its own, in which nothing is but this process and what it starts.

With bubblewrap there is always one. Without it, the kernel may still let anybody make one (user
namespaces: `user_namespaces(7)`); many containers and some distributions do not.
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
    """Move this process, of one thread, into a network of its own, where the kernel lets it.

    It is the same user as before there; its loopback works, and leads nowhere else.

    Returns:
        Whether it did. If not, nothing has changed.
    """
    # First in a process of its own: there is no way back from half of it.
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
    """Do it.

    Raises:
        OSError: The kernel refused a step.
    """
    known = architecture()
    if known is None:
        raise OSError("system calls of this machine are not known")
    user, group = os.geteuid(), os.getegid()
    kernel.dumpable(True)  # else the files of /proc about itself are root's
    kernel.system_call(known[1]["unshare"], _NEW_USER | _NEW_NETWORK)
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
        asked = struct.pack("16sH22x", b"lo", 0)
        flags = struct.unpack("16sH22x", fcntl.ioctl(any_socket, _GET_FLAGS, asked))[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH22x", b"lo", flags | _UP))
