"""Landlock: restrict this process's access to files, TCP ports and signals.

Source: `Documentation/userspace-api/landlock.rst` of the kernel.
"""

from __future__ import annotations

import os
import stat
import struct

from . import kernel
from .syscalls import architecture

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Iterable

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_CONNECT_TCP = 1 << 1
_MAKE = 0b1_1111_1111_0000
"""All rights to create and remove entries of folders."""
_MAKE_DEVICES = 1 << 6 | 1 << 11
_BASE = 0b1_1111_1111_1111
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_BOTH_SCOPES = 0b11
"""Scopes of abstract unix sockets and of signals."""
_PATH_BENEATH, _NET_PORT = 1, 2

SIGNALS_FROM = 6
"""First version that confines signals."""
TRUNCATION_FROM = 3
"""First version that treats truncation as writing."""
TCP_FROM = 4
"""First version with rules for TCP ports."""

READ_ACCESS, LIST_ACCESS, WRITE_ACCESS, DEVICE_ACCESS = "read", "list", "write", "device"
"""Access of a rule: read and execute; only list folders; everything; read and write a device."""


def version() -> int:
    """The kernel's Landlock version, 0 without Landlock."""
    machine = architecture()
    if machine is None or not kernel.LINUX:
        return 0
    try:
        return kernel.system_call(machine[1]["landlock_create_ruleset"], None, 0, 1)
    except OSError:
        return 0


class Ruleset:
    """Rules that are created once and can be applied to many processes.

    Args:
        rules: Paths with their access (READ_ACCESS, LIST_ACCESS, WRITE_ACCESS, DEVICE_ACCESS).
            Missing paths are skipped.
        ports: TCP ports on any host that may be connected to; None leaves TCP unrestricted.
        api: The Landlock version to use.
        programs: The only files that may be executed; None for all that may be read.

    Raises:
        OSError: The kernel refused it.
    """

    def __init__(
        self,
        rules: Iterable[tuple[str, str]],
        *,
        ports: tuple[int, ...] | None,
        api: int,
        programs: Iterable[str] | None = None,
    ) -> None:
        machine = architecture()
        assert machine is not None
        self._numbers = machine[1]
        self._handled = _BASE
        if api >= 2:
            self._handled |= _REFER
        if api >= TRUNCATION_FROM:
            self._handled |= _TRUNCATE
        if api >= 5:
            self._handled |= _IOCTL_DEVICE
        net = 0b11 if api >= TCP_FROM and ports is not None else 0
        described = struct.pack("=Q", self._handled)
        if api >= TCP_FROM:
            described += struct.pack("=Q", net)
        if api >= SIGNALS_FROM:
            described += struct.pack("=Q", _BOTH_SCOPES)
        self._fd = kernel.system_call(
            self._numbers["landlock_create_ruleset"], described, len(described), 0
        )
        for path, access in rules:
            self._allow(path, access, without=0 if programs is None else EXECUTE)
        for path in programs or ():
            self._allow(path, READ_ACCESS)
        for port in ports or () if net else ():
            rule = struct.pack("=QQ", _CONNECT_TCP, port)
            kernel.system_call(self._numbers["landlock_add_rule"], self._fd, _NET_PORT, rule, 0)

    def _allow(self, path: str, access: str, without: int = 0) -> None:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return  # a missing path needs no permission
        try:
            rights = (
                {
                    READ_ACCESS: EXECUTE | READ_FILE | READ_DIR,
                    LIST_ACCESS: READ_DIR,
                    WRITE_ACCESS: _ON_FILES | READ_DIR | (_MAKE & ~_MAKE_DEVICES) | _REFER,
                    DEVICE_ACCESS: READ_FILE | WRITE_FILE | _TRUNCATE | _IOCTL_DEVICE,
                }[access]
                & self._handled
                & ~without
            )
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                rights &= _ON_FILES
            if rights:
                rule = struct.pack("=Qi", rights, fd)
                kernel.system_call(
                    self._numbers["landlock_add_rule"], self._fd, _PATH_BENEATH, rule, 0
                )
        finally:
            os.close(fd)

    def fileno(self) -> int:
        """The descriptor of the rules."""
        return self._fd

    def restrict(self) -> None:
        """Apply the rules to this process and its children; needs `no_new_privileges` first.

        Raises:
            OSError: The kernel refused it.
        """
        kernel.system_call(self._numbers["landlock_restrict_self"], self._fd, 0)

    def close(self) -> None:
        """Close the descriptor; restricted processes stay restricted."""
        os.close(self._fd)
