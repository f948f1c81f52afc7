"""The first process of a sandbox that has no process namespace: nothing in it outlives this one.

It runs no code but this, stands outside the rules, and adopts what loses its parent. When the
process outside goes away, however that ends, or the one it guards does, it kills all the rest.
"""

from __future__ import annotations

import os
import select
import signal

from . import census, kernel, scratch


def guard(control: int, folder: str) -> None:
    """Split in two: the guarded process returns, the keeper never does.

    Args:
        control: A socket whose other end the process outside holds.
        folder: The scratch folder, which is removed in the end.
    """
    kernel.adopt_orphans()
    pid = os.fork()
    if pid == 0:
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    poll = select.poll()
    poll.register(control, 0)  # only that it was hung up
    pidfd = os.pidfd_open(pid)
    poll.register(pidfd, select.POLLIN)
    poll.poll()
    gone = os.waitpid(pid, os.WNOHANG)
    if gone[0] == 0:
        os.kill(pid, signal.SIGKILL)
        gone = os.waitpid(pid, 0)
    census.end_all(os.getpid())
    scratch.remove(folder)
    code = os.waitstatus_to_exitcode(gone[1])
    os._exit(code if code >= 0 else 128 - code)
