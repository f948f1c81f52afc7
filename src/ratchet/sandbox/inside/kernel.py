"""The kernel's own controls that Python has no function for: prctl, capabilities, raw calls."""

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
    """The C library, loaded once."""

    handle: ctypes.CDLL | None = None


def libc() -> ctypes.CDLL:
    """The C library of this process."""
    if _Libc.handle is None:
        _Libc.handle = ctypes.CDLL(None, use_errno=True)
        _Libc.handle.syscall.restype = ctypes.c_long
    return _Libc.handle


def system_call(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """One system call by its number.

    Raises:
        OSError: The kernel refused it.
    """
    made = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    answer: int = libc().syscall(ctypes.c_long(number), *made)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def control(option: int, first: int, second: int = 0) -> int:
    """One `prctl`.

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
    """No program that is executed from here on gives more rights than this process has."""
    control(_PR_SET_NO_NEW_PRIVS, 1)


def dumpable(yes: bool) -> None:
    """Whether others of the same user may look into this process, and whether it leaves a core."""
    control(_PR_SET_DUMPABLE, int(yes))


def die_with_parent(signal_number: int) -> None:
    """This process gets a signal when the thread that started it ends."""
    control(_PR_SET_PDEATHSIG, signal_number)


def adopt_orphans() -> None:
    """Descendants whose parents end become children of this process."""
    control(_PR_SET_CHILD_SUBREAPER, 1)


def prefer_for_oom_kill() -> None:
    """When the machine runs out of memory, this and what it starts are ended before others."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")
    except OSError:
        pass  # a wish, not a rule


def drop_capabilities() -> None:
    """Give up all that root may and others may not; nothing executed later gets it back."""
    for capability in range(64):
        try:
            control(_PR_CAPBSET_DROP, capability)
        except OSError:
            break  # the last one was the highest, or this process may not
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
