"""What a held system call would do beyond its own process, read from its arguments."""

from __future__ import annotations

import errno
import os
import re
import socket
import struct

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from .notices import Notice

CONNECT, SOCKET, PROGRAM, WRITE, DELETE = "connect", "socket", "program", "write", "delete"
"""Kinds: a host and port; a unix socket's path; a program's path; a file's path."""
SIGNAL, PROCESS = "signal", "process"
"""Kinds: a signal to a process; control over another process or over the machine."""
LOOKUP = "lookup"
"""Kind: a host's name that was looked up, but that nothing connected to."""

NAME_SERVICE = 53
_MOST_MESSAGES = 16
_MEMORY = re.compile(r"/proc/\d+/(task/\d+/)?mem")
_NAMED = re.compile(rb'"name":"([A-Za-z0-9_.-]+)"')

# The argument with the folder's descriptor (None: none), and that with the path.
_CHANGES: dict[str, tuple[int | None, int]] = {
    "open": (None, 0),
    "openat": (0, 1),
    "openat2": (0, 1),
    "creat": (None, 0),
    "truncate": (None, 0),
    "mkdir": (None, 0),
    "mkdirat": (0, 1),
    "chmod": (None, 0),
    "fchmodat": (0, 1),
    "fchmodat2": (0, 1),
    "chown": (None, 0),
    "lchown": (None, 0),
    "fchownat": (0, 1),
    "utime": (None, 0),
    "utimes": (None, 0),
    "futimesat": (0, 1),
    "utimensat": (0, 1),
    "link": (None, 1),
    "linkat": (2, 3),
    "symlink": (None, 1),
    "symlinkat": (1, 2),
    "rename": (None, 1),
    "renameat": (2, 3),
    "renameat2": (2, 3),
}
_DELETES: dict[str, tuple[int | None, int]] = {
    "unlink": (None, 0),
    "unlinkat": (0, 1),
    "rmdir": (None, 0),
    "rename": (None, 0),
    "renameat": (0, 1),
    "renameat2": (0, 1),
}
_FOLLOWS = frozenset({"open", "openat", "openat2", "creat", "truncate", "chmod", "utimes"})
_LINKED: dict[str, tuple[int | None, int]] = {"link": (None, 0), "linkat": (0, 1)}
"""A hard link gives a second name to a file, by which it can be changed."""


class Effect:
    """A single effect of a call.

    Args:
        kind: One of the kinds above.
        subject: An address, a path, or a process id.
        port: Of a host.
    """

    def __init__(self, kind: str, subject: str, port: int = 0) -> None:
        self.kind = kind
        self.subject = subject
        self.port = port


def effects(notice: Notice) -> list[Effect]:
    """The effects of a call beyond its process; none for a call that is not of interest.

    Raises:
        OSError: Its arguments cannot be read.
    """
    name, arguments = notice.name, notice.arguments
    if name in ("execve", "execveat"):
        path = real(_path(notice, (None, 0) if name == "execve" else (0, 1)), follow=False)
        # A shell tries the folders of its PATH one after another.
        return [Effect(PROGRAM, path)] if os.path.isfile(path) else []
    if name == "connect":
        return _to(notice, arguments[1], arguments[2])
    if name == "sendto":
        return _to(notice, arguments[4], arguments[5])
    if name in ("sendmsg", "sendmmsg"):
        return [effect for at, size, _ in _messages(notice) for effect in _to(notice, at, size)]
    if name in ("kill", "tkill", "tgkill"):
        return [Effect(SIGNAL, str(_signed(arguments[0])))]
    if name not in _CHANGES and name not in _DELETES:
        return [Effect(PROCESS, name)]
    changes = []
    for kind, table in ((DELETE, _DELETES), (WRITE, _CHANGES), (WRITE, _LINKED)):
        if name in table:
            path = _path(notice, table[name])
            follow = name in _FOLLOWS and not _stays_at_link(notice)
            changes.append(_change(kind, real(path, follow=follow)))
    return changes


def _change(kind: str, path: str) -> Effect:
    # Writing to this file changes the memory of a process.
    return Effect(PROCESS if _MEMORY.fullmatch(path) else kind, path)


def payloads(notice: Notice) -> list[bytes]:
    """The first bytes of what a call sends.

    Raises:
        OSError: They cannot be read.
    """
    if notice.name == "sendto":
        return [notice.memory(notice.arguments[1], min(notice.arguments[2], 512))]
    return [_first_part(notice, parts) for _, _, parts in _messages(notice)]


def asked_name(payload: bytes) -> str:
    """The host's name in a query to a name service; empty for anything else."""
    if payload[:1] == b"{":  # systemd-resolved's own protocol
        match = _NAMED.search(payload)
        return match.group(1).decode() if match else ""
    try:
        flags, questions = struct.unpack_from("!HH", payload, 2)
        if flags & 0xF800 or questions != 1:
            return ""
        return question(payload)[0]
    except (struct.error, ValueError, IndexError):
        return ""


def question(query: bytes) -> tuple[str, int, int]:
    """The name in a DNS query, its type, and where the question ends (RFC 1035, section 4).

    Raises:
        IndexError: It is cut off.
        ValueError: It is no query.
    """
    labels = []
    at = 12
    while length := query[at]:
        if length > 63 or at + length >= len(query):
            raise ValueError("no plain label")
        labels.append(query[at + 1 : at + 1 + length].decode("ascii").lower())
        at += 1 + length
    kind, _ = struct.unpack_from("!HH", query, at + 1)
    return ".".join(labels), kind, at + 5


def real(path: str, *, follow: bool) -> str:
    """A path with symbolic links resolved; a final link only if the call follows it."""
    if follow:
        return os.path.realpath(path)
    folder, name = os.path.split(path.rstrip("/") or "/")
    return os.path.join(os.path.realpath(folder), name)


def _path(notice: Notice, at: tuple[int | None, int]) -> str:
    folder, path = at
    if folder is None:
        return notice.path(notice.arguments[path])
    address = notice.arguments[path]
    if not address:  # of an open file
        return os.readlink(f"/proc/{notice.pid}/fd/{notice.arguments[folder] & 0xFFFFFFFF}")
    return notice.path(address, notice.arguments[folder])


def _stays_at_link(notice: Notice) -> bool:
    flags = {"open": 1, "openat": 2}.get(notice.name)
    return flags is not None and bool(notice.arguments[flags] & os.O_NOFOLLOW)


def _signed(value: int) -> int:
    return int(struct.unpack("=i", struct.pack("=I", value & 0xFFFFFFFF))[0])


def _messages(notice: Notice) -> list[tuple[int, int, tuple[int, int]]]:
    """Of each message of a call: the address, the address's size, and the content's parts."""
    size, count = 56, 1
    if notice.name == "sendmmsg":
        size, count = 64, min(notice.arguments[2] & 0xFFFFFFFF, _MOST_MESSAGES)
    content = notice.memory(notice.arguments[1], size * count)
    if len(content) < size * count:
        raise OSError(errno.EFAULT, "no message")
    messages = []
    for number in range(count):
        name, length, _, parts, many = struct.unpack_from("=QIIQQ", content, number * size)
        messages.append((name, length, (parts, many)))
    return messages


def _first_part(notice: Notice, parts: tuple[int, int]) -> bytes:
    if not parts[1]:
        return b""
    base, length = struct.unpack("=QQ", notice.memory(parts[0], 16))
    return notice.memory(base, min(length, 512))


def _to(notice: Notice, address: int, size: int) -> list[Effect]:
    if not address:
        return []
    content = notice.memory(address, min(size & 0xFFFFFFFF, 128))
    if len(content) < 2:
        return []
    family = struct.unpack_from("=H", content)[0]
    if family == socket.AF_INET and len(content) >= 8:
        host = socket.inet_ntop(socket.AF_INET, content[4:8])
        return [Effect(CONNECT, host, int.from_bytes(content[2:4], "big"))]
    if family == socket.AF_INET6 and len(content) >= 24:
        raw = content[8:24]
        if raw[:12] == bytes(10) + b"\xff\xff":
            host = socket.inet_ntop(socket.AF_INET, raw[12:])
        else:
            host = socket.inet_ntop(socket.AF_INET6, raw)
        return [Effect(CONNECT, host, int.from_bytes(content[2:4], "big"))]
    if family == socket.AF_UNIX and len(content) > 2:
        path = content[2:]
        if path[:1] == b"\0":
            return [Effect(SOCKET, "@" + path[1:].split(b"\0")[0].decode(errors="replace"))]
        place = os.fsdecode(path.split(b"\0")[0])
        if not place.startswith("/"):
            place = os.path.join(os.readlink(f"/proc/{notice.pid}/cwd"), place)
        return [Effect(SOCKET, os.path.realpath(place))]
    return []
