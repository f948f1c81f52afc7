"""Runs a program, answers its system calls, and leaves none of its processes when it ends."""

from __future__ import annotations

import os
import select
import signal
import socket

from . import kernel, notices, policy, process_table, seccomp
from .act_log import ActLog
from .observer import Observer

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

NOT_STARTED = 127
"""Exit code if the program cannot be executed."""


def watch(config: dict[str, Any]) -> NoReturn:
    """Run a program, deny it nothing, and report what it does.

    Args:
        config: `command`, `cwd`, `environment`, `log` (the descriptor of its acts), `descriptors`
            (those that the program inherits).
    """
    log = ActLog(config["log"])
    os.set_inheritable(config["log"], False)
    ignore_signals()
    kernel.adopt_orphans()
    started = Started(config, log, policy.acts(every_send=True), lambda: None, needed=False)
    if started.pid:
        observer = Observer(log.add, started.pid)
        until_ended(started, observer.decide)
    log.settle()
    process_table.end_all(os.getpid())
    end_as(started.status)


def ignore_signals() -> None:
    """Leave signals to the program, including those of a terminal."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)


class Started:
    """A program that was started, and the listener of its filter.

    Args:
        config: As in `watch`.
        log: Told when it cannot be started.
        rules: The rules of its filter.
        restrict: Called in the program's process before it is executed.
        needed: Whether it must not run without the filter.
    """

    def __init__(
        self,
        config: dict[str, Any],
        log: ActLog,
        rules: tuple[seccomp.Rule, ...],
        restrict: Callable[[], None],
        *,
        needed: bool,
    ) -> None:
        self.status = NOT_STARTED << 8
        """As from waitpid(2), once it has ended."""
        ours, theirs = socket.socketpair()
        reader, writer = os.pipe()
        self.pid = os.fork()
        """0 if it could not be started."""
        if not self.pid:
            ours.close()
            _execute(config, rules, restrict, theirs, writer, needed)
        theirs.close()
        os.close(writer)
        for descriptor in config["descriptors"]:
            os.close(descriptor)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        os.close(nothing)
        message, descriptors, _, _ = socket.recv_fds(ours, 4096, 1)
        ours.close()
        self.listener = descriptors[0] if descriptors else -1
        if self.listener < 0 and message:
            log.say("blind", message.decode(errors="replace"))
        self._failing = reader
        self._log = log

    def failed(self) -> None:
        """If the program was not executed, report why."""
        with os.fdopen(self._failing, "rb") as file:
            if why := file.read():
                self._log.say("failed", why.decode(errors="replace"))


def _execute(
    config: dict[str, Any],
    rules: tuple[seccomp.Rule, ...],
    restrict: Callable[[], None],
    channel: socket.socket,
    failing: int,
    needed: bool,
) -> NoReturn:
    try:
        kernel.die_with_parent(signal.SIGKILL)
        for number in range(1, signal.NSIG):
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):
                continue
        if config["cwd"]:
            os.chdir(config["cwd"])

        def restricted() -> None:
            kernel.no_new_privileges()
            restrict()

        try:
            notices.hand_over(seccomp.compiled(rules), channel, restricted)
        except OSError as error:
            if needed:
                raise
            channel.send(f"{error.strerror or error}".encode())
        channel.close()
        command = config["command"]
        os.execvpe(command[0], command, config["environment"])  # noqa: S606
    except BaseException as error:
        os.write(failing, f"{error}".encode())
    finally:
        os._exit(NOT_STARTED)


def until_ended(
    started: Started,
    decide: Callable[[notices.Notice], None],
    readers: dict[int, Callable[[], None]] | None = None,
) -> None:
    """Answer calls until the program has ended.

    Args:
        started: The program.
        decide: Answers a call.
        readers: What else to call when a descriptor is readable; may change meanwhile.
    """
    readers = {} if readers is None else readers
    pidfd = os.pidfd_open(started.pid)
    waited: set[int] = set()
    poll = select.poll()
    for descriptor in (pidfd, started.listener):
        if descriptor >= 0:
            poll.register(descriptor, select.POLLIN)
    while True:
        for descriptor in readers.keys() ^ waited:
            if descriptor in readers:
                poll.register(descriptor, select.POLLIN)
            else:
                poll.unregister(descriptor)
        waited = set(readers)
        ready = dict(poll.poll())
        if pidfd in ready:
            break
        if started.listener in ready:
            if not ready[started.listener] & select.POLLIN:
                poll.unregister(started.listener)  # none of its processes is left
            elif (notice := notices.receive(started.listener)) is not None:
                decide(notice)
        for descriptor in ready.keys() & waited:
            if descriptor in readers:
                readers[descriptor]()
    os.close(pidfd)
    _, started.status = os.waitpid(started.pid, 0)
    started.failed()


def end_as(status: int) -> NoReturn:
    """End as another process did: with its exit code, or by its signal."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)
