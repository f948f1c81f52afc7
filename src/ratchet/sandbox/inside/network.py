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
    """Enter a new network namespace, and enable its loopback interface.

    Raises:
        OSError: The kernel refused a step.
    """
    unshare(_NEW_NETWORK)
    _raise_loopback()


def unshare(namespaces: int) -> None:
    """Move this single-threaded process into new namespaces, keeping its user.

    Raises:
        OSError: The kernel refused it.
    """
    machine = architecture()
    if machine is None:
        raise OSError("the system call numbers of this machine's architecture are unknown")
    user, group = os.geteuid(), os.getegid()
    kernel.dumpable(True)  # otherwise root owns this process's own files in /proc
    kernel.system_call(machine[1]["unshare"], _NEW_USER | namespaces)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def lead_all_here() -> None:
    """In a separate network: make every address a local one, so that no connection leaves it.

    A connection meets a listener here or is refused at once (`ip route add local default dev lo`).

    Raises:
        OSError: The kernel refused it.
    """
    import socket

    _raise_loopback()
    loopback = socket.if_nametoindex("lo")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as routing:
        for family in (socket.AF_INET, socket.AF_INET6):
            # struct rtmsg, and the attribute RTA_OIF: rtnetlink(7)
            route = struct.pack("=8BI", family, 0, 0, 0, 255, 3, 254, 2, 0)
            route += struct.pack("=HHi", 8, 4, loopback)
            head = struct.pack("=IHHII", 16 + len(route), 24, 0x405, 1, 0)
            routing.send(head + route)
            error = struct.unpack_from("=i", routing.recv(4096), 16)[0]
            if error and family == socket.AF_INET:  # a kernel may have no IPv6
                raise OSError(-error, os.strerror(-error))


def _raise_loopback() -> None:
    import fcntl
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH22x", b"lo", 0)
        flags = struct.unpack("16sH22x", fcntl.ioctl(any_socket, _GET_FLAGS, request))[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH22x", b"lo", flags | _UP))
