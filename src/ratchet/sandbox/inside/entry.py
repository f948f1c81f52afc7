"""Entry point inside a sandbox: read the configuration and act on it."""

from __future__ import annotations

import marshal
import os
import select
import signal

from . import kernel, process_table, scratch

TYPE_CHECKING = False  # `typing` is slow to import

if TYPE_CHECKING:
    from typing import Any, NoReturn


def guard(control: int, folder: str) -> None:
    """Fork: the guarded process returns, the keeper never does.

    Args:
        control: The control socket; the outer process holds its other end.
        folder: The scratch folder, which is removed at the end.
    """
    kernel.adopt_orphans()
    pid = os.fork()
    if pid == 0:
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    poll = select.poll()
    poll.register(control, 0)  # only for a hang-up
    pidfd = os.pidfd_open(pid)
    poll.register(pidfd, select.POLLIN)
    poll.poll()
    gone = os.waitpid(pid, os.WNOHANG)
    if gone[0] == 0:
        os.kill(pid, signal.SIGKILL)
        gone = os.waitpid(pid, 0)
    process_table.end_all(os.getpid())
    scratch.remove(folder)
    code = os.waitstatus_to_exitcode(gone[1])
    os._exit(code if code >= 0 else 128 - code)


def main(control: int, config: int) -> NoReturn:
    """Become a zygote, or run a command.

    Args:
        control: The descriptor of the control socket; negative for none.
        config: The descriptor of a file with the marshalled configuration, written by the outer
            process.
    """
    with os.fdopen(config, "rb") as file:
        read: dict[str, Any] = marshal.load(file)  # noqa: S302
    if control >= 0:
        os.set_inheritable(control, False)
    if read["mode"] == "watch":
        from . import keeper

        keeper.watch(read)
    if read["mode"] == "contain":
        from . import containment

        containment.contain(control, read)
    if read["mode"] == "command":
        from . import command

        command.run(control, read)
    from . import zygote

    if read["level"] != "bubblewrap":
        guard(control, read["scratch"])
    zygote.serve(control, read)
