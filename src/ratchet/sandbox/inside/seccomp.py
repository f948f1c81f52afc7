"""System call filters, written as rules and compiled to the kernel's BPF.

Source: `Documentation/userspace-api/seccomp_filter.rst` of the kernel.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from . import kernel
from .syscalls import X86_64, architecture

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW = 0x7FFF0000
_ERROR = 0x00050000
_KILL_PROCESS = 0x80000000
_NOTIFY = 0x7FC00000
_X32 = 0x40000000
"""Calls of x86_64's x32 interface have this bit."""
_SET_MODE_FILTER = 1
_NEW_LISTENER = 1 << 3
_WAIT_KILLABLE = 1 << 5
_GET_ACTION_AVAIL = 2
ALL_BITS = 0xFFFFFFFF


class Rule:
    """A system call that is refused, always or depending on one argument.

    Args:
        name: The call.
        error: The errno that the caller gets; 0 reports success and does nothing.
        argument: The argument that decides (its lower 32 bits); None refuses every call.
        high: The upper 32 bits of the argument decide.
        mask: The bits of it to compare.
        values: The values to compare with.
        refuse_these: Refuse when it is among the values; False: when it is not.
        notify: Do not refuse: the filter's listener decides on each call.
    """

    def __init__(
        self,
        name: str,
        error: int = errno.EPERM,
        *,
        argument: int | None = None,
        high: bool = False,
        mask: int = ALL_BITS,
        values: tuple[int, ...] = (),
        refuse_these: bool = True,
        notify: bool = False,
    ) -> None:
        self.name = name
        self.error = error
        self.argument = argument
        self.high = high
        self.mask = mask
        self.values = values
        self.refuse_these = refuse_these
        self.notify = notify


def compiled(rules: tuple[Rule, ...]) -> bytes:
    """Compile the filter to an array of BPF instructions.

    Raises:
        OSError: The call numbers of this architecture are unknown.
    """
    machine = architecture()
    if machine is None:
        raise OSError(
            errno.ENOSYS, "the system call numbers of this machine's architecture are unknown"
        )
    name, numbers = machine
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, name, 1, 0),
        _step(_RETURN, _KILL_PROCESS),
        _step(_LOAD, _NUMBER),
    ]
    if name == X86_64:
        program += [_step(_AT_LEAST, _X32, 0, 1), _step(_RETURN, _ERROR | errno.ENOSYS)]
    for rule in rules:
        if rule.name in numbers:
            program += _block(rule, numbers[rule.name])
    program.append(_step(_RETURN, _ALLOW))
    return b"".join(program)


def _block(rule: Rule, number: int) -> list[bytes]:
    refuse = _step(_RETURN, _NOTIFY if rule.notify else _ERROR | rule.error)
    if rule.argument is None:
        return [_step(_EQUAL, number, 0, 1), refuse]
    body = [_step(_LOAD, _ARGUMENTS + 8 * rule.argument + 4 * rule.high)]
    if rule.mask != ALL_BITS:
        body.append(_step(_AND, rule.mask))
    # The refusal follows the comparisons; after it the call number is loaded again.
    left = len(rule.values)
    for value in rule.values:
        left -= 1
        if rule.refuse_these:
            body.append(_step(_EQUAL, value & ALL_BITS, left, 0 if left else 1))
        else:
            body.append(_step(_EQUAL, value & ALL_BITS, left + 1, 0))
    body += [refuse, _step(_LOAD, _NUMBER)]
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def install(program: bytes, *, listen: bool = False, once: bool = False) -> int:
    """Filter every later call of this process and its children.

    Args:
        program: The filter.
        listen: The filter asks about some calls.
        once: A call that was asked about is not begun anew by a signal (since Linux 5.19): it may
            have been carried out in the kernel's place. Waits for an answer are longer then: a
            call of a warm sandbox took 7.0 ms instead of 5.4.

    Returns:
        With `listen`, the descriptor at which it asks.

    Raises:
        OSError: The kernel refused it.
    """
    machine = architecture()
    assert machine is not None
    program_buffer = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(program_buffer))
    flags = _NEW_LISTENER if listen else 0
    if once:
        try:
            return kernel.system_call(
                machine[1]["seccomp"], _SET_MODE_FILTER, flags | _WAIT_KILLABLE, described
            )
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
    return kernel.system_call(machine[1]["seccomp"], _SET_MODE_FILTER, flags, described)


def available() -> bool:
    """Whether this kernel has seccomp filters and this architecture's call numbers are known."""
    machine = architecture()
    if machine is None or not kernel.LINUX:
        return False
    try:
        kernel.system_call(
            machine[1]["seccomp"], _GET_ACTION_AVAIL, 0, struct.pack("=I", _KILL_PROCESS)
        )
    except OSError:
        return False
    return True
