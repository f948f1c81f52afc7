"""Kernel controls that Python has no function for: prctl, capabilities, raw system calls."""

from __future__ import annotations

import ctypes
import os
import struct
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_SECUREBITS = 28
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_SECUREBITS = 0b1110_1111
"""NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE, all locked; KEEP_CAPS off and locked."""

LINUX = sys.platform == "linux"


class _Libc:
    """Holds the C library, loaded once."""

    handle: ctypes.CDLL | None = None


def libc() -> ctypes.CDLL:
    """The C library of this process."""
    if _Libc.handle is None:
        _Libc.handle = ctypes.CDLL(None, use_errno=True)
        _Libc.handle.syscall.restype = ctypes.c_long
    return _Libc.handle


def system_call(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Make a system call by its number.

    Raises:
        OSError: The kernel refused it.
    """
    c_arguments = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    answer: int = libc().syscall(ctypes.c_long(number), *c_arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def control(option: int, first: int, second: int = 0) -> int:
    """Make a `prctl` call.

    Raises:
        OSError: The kernel refused it.
    """
    zero = ctypes.c_ulong(0)
    answer: int = libc().prctl(
        ctypes.c_int(option), ctypes.c_ulong(first), ctypes.c_ulong(second), zero, zero
    )
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def no_new_privileges() -> None:
    """No program executed from here on gains privileges that this process lacks."""
    control(_PR_SET_NO_NEW_PRIVS, 1)


def dumpable(yes: bool) -> None:
    """Set whether processes of the same user may inspect this one, and whether it dumps core."""
    control(_PR_SET_DUMPABLE, int(yes))


def die_with_parent(signal_number: int) -> None:
    """Send this process a signal when the thread that started it ends."""
    control(_PR_SET_PDEATHSIG, signal_number)


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parents end."""
    control(_PR_SET_CHILD_SUBREAPER, 1)


def prefer_for_oom_kill() -> None:
    """Prefer this process and its children as victims when the machine runs out of memory."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")
    except OSError:
        pass  # optional


def drop_capabilities() -> None:
    """Drop all capabilities; programs executed later cannot regain them."""
    for capability in range(64):
        try:
            control(_PR_CAPBSET_DROP, capability)
        except OSError:
            break  # past the last capability, or not permitted
    for attempt in (
        (_PR_SET_SECUREBITS, _SECUREBITS),
        (_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL),
    ):
        try:
            control(*attempt)
        except OSError:
            pass  # without CAP_SETPCAP there is nothing to lock, and no_new_privs holds anyway
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    if libc().capset(header, bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), "capabilities cannot be dropped")
