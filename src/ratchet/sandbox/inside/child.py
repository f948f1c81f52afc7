"""Handle one request in a process forked for it: limits, rules, the handler, the answer."""

from __future__ import annotations

import fcntl
import os
import signal
import sys

from . import confine, kernel, protocol
from .confine import Confinement
from .process_gate import ProcessGate

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    import types
    from collections.abc import Callable
    from typing import Any, NoReturn, TypeAlias

    Handler: TypeAlias = Callable[[Any, bytes], bytes]


ANSWER_FD, BODY_FD = 3, 4
"""Descriptors of a request's process, in addition to the standard three."""
NOT_CONFINED_EXIT = 70
"""Exit code of a process that could not be confined."""


def run(
    request: dict[str, Any],
    fds: list[int],
    nothing: int,
    handler: Handler,
    state: object,
    rules: Confinement,
    gate: ProcessGate,
    mapped: int,
) -> NoReturn:
    """Run the handler and send its result; never returns.

    Args:
        request: `nonce`, `scratch` (its folder), `limits`.
        fds: Descriptors for the answer, the output and the body.
        nothing: /dev/null.
        handler: The handler.
        state: The return value of `prepare`.
        rules: The rules to apply to this process.
        gate: Limits new processes.
        mapped: Bytes of address space that the parent has mapped.
    """
    code = NOT_CONFINED_EXIT
    try:
        body = _enter(request, fds, nothing, rules, gate, mapped)
        protocol.write_all(ANSWER_FD, *_answer(request["nonce"], handler, state, body))
        code = 0
    except MemoryError:
        protocol.write_all(ANSWER_FD, _frame(request["nonce"], protocol.OUT_OF_MEMORY, b""))
    except Exception as error:
        protocol.write_all(2, f"The sandbox failed: {type(error).__name__}: {error}\n".encode())
    finally:
        # Not `sys.exit`: this also skips exit handlers and ends other threads.
        os._exit(code)


def _enter(
    request: dict[str, Any],
    fds: list[int],
    nothing: int,
    rules: Confinement,
    gate: ProcessGate,
    mapped: int,
) -> bytes:
    kernel.die_with_parent(signal.SIGKILL)
    os.setpgid(0, 0)
    rules.on_request(os.getpid())
    gate.enter()
    answer, output, body = fds
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 16) for fd in (nothing, output, output, answer, body)]
    for at, fd in enumerate(high):
        os.dup2(fd, at)
    os.closerange(BODY_FD + 1, os.sysconf("SC_OPEN_MAX"))
    content = _content()
    os.close(BODY_FD)
    scratch = request["scratch"]
    os.mkdir(scratch, 0o700)
    os.chdir(scratch)
    os.environ["HOME"] = os.environ["TMPDIR"] = scratch
    confine.limit_request(request["limits"], mapped)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    return content


def _content() -> bytes:
    length = os.fstat(BODY_FD).st_size
    parts = []
    at = 0
    while at < length and (part := os.pread(BODY_FD, length - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _answer(nonce: bytes, handler: Handler, state: object, body: bytes) -> tuple[bytes, ...]:
    try:
        returned: object = handler(state, body)
        if isinstance(returned, bytes):
            kind, content = protocol.ANSWERED, returned
        else:
            kind, content = protocol.NOT_BYTES, type(returned).__name__.encode()
    except MemoryError:
        kind, content = protocol.OUT_OF_MEMORY, b""
    except BaseException as error:
        kind, content = protocol.RAISED, describe_error(error)
    _flush()
    return _frame(nonce, kind, content), content


def _frame(nonce: bytes, kind: int, content: bytes) -> bytes:
    return protocol.FRAME.pack(nonce, kind, len(content))


def describe_error(error: BaseException) -> bytes:
    """The error on one line; its traceback goes to the output."""
    _flush()  # so that earlier output precedes the traceback
    try:
        import traceback

        traceback.print_exception(type(error), error, _theirs(error), limit=-20)
    except BaseException:  # noqa: S110 - even an error that cannot be formatted is an error
        pass
    try:
        message = str(error)[:2000]
    except BaseException:
        message = "(no message)"
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return text.encode(errors="replace")


def _theirs(error: BaseException) -> types.TracebackType | None:
    """The traceback from the first line that is not the sandbox's own."""
    own = os.path.dirname(os.path.abspath(__file__))
    full_traceback = left = error.__traceback__
    while left is not None and (
        os.path.dirname(left.tb_frame.f_code.co_filename) == own
        or "/asyncio/" in left.tb_frame.f_code.co_filename
    ):
        left = left.tb_next
    return left or full_traceback


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:  # noqa: S110 - it may have been closed or replaced
            pass
