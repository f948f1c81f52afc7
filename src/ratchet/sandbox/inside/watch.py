"""Watch a process and its descendants until it ends or exceeds a limit."""

from __future__ import annotations

import os
import select
import signal
import time

from . import process_table, protocol, scratch
from .process_gate import ProcessGate

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any

TICK_INTERVAL_S = 0.02
"""Interval between measurements of the processes' usage, in seconds."""
_SCRATCH_TICKS = 5
"""Ticks between measurements of the scratch folder, where its mount does not limit it."""
_SLACK = 2
"""Several threads may pass the gate at once; usage beyond this multiple of the limit means that the
gate was bypassed.
"""


class ProcessWatch:
    """Watches a process and its descendants.

    Args:
        pid: The process; a child of this one, which only the caller reaps.
        control: The control socket: any input on it ends the process.
        gate: Limits new processes.
        limits: `seconds`, `processes`, `memory`, `scratch`.
        folder: Its scratch folder.
        mounted: The folder is a separate file system of limited size.
        shared: Bytes of memory of each process that are shared with this one and not counted.
    """

    def __init__(
        self,
        pid: int,
        control: protocol.ControlSocket,
        gate: ProcessGate,
        limits: dict[str, Any],
        *,
        folder: str,
        mounted: bool,
        shared: int = 0,
    ) -> None:
        self._pid = pid
        self._control = control
        self._gate = gate
        self._limits = limits
        self._folder = folder
        self._mounted = mounted
        self._shared = shared
        self._own = os.getpid()

    def until_ended(self) -> tuple[int, bool]:
        """Wait for the process, and kill it if it exceeds a limit; the caller reaps it.

        Returns:
            Why it ended (see `protocol`), and whether the outer process is still there.
        """
        pidfd = os.pidfd_open(self._pid)
        try:
            verdict, present = self._wait(pidfd)
        finally:
            os.close(pidfd)
            self._gate.close()
        if verdict != protocol.EXITED:
            os.kill(self._pid, signal.SIGKILL)
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        return verdict, present

    def _wait(self, pidfd: int) -> tuple[int, bool]:
        now = time.monotonic()
        deadline = now + self._limits["seconds"]
        look = now + TICK_INTERVAL_S
        control, asking = self._control.fileno(), self._gate.fileno()
        poll = select.poll()
        for fd in (pidfd, control, asking):
            poll.register(fd, select.POLLIN)
        looks = 0
        while now < deadline:
            ready = dict(poll.poll(max(0.0, min(look, deadline) - now) * 1000))
            if control in ready:
                return protocol.STOPPED, self._control.receive() is not None
            if pidfd in ready:
                return protocol.EXITED, True
            if asking in ready:
                gone = not ready[asking] & select.POLLIN
                if gone or self._gate.answer(self._may_start):
                    poll.unregister(asking)
                if not gone and self._gate.fileno() != asking:
                    asking = self._gate.fileno()
                    if asking >= 0:
                        poll.register(asking, select.POLLIN)
            now = time.monotonic()
            if now >= look:
                looks += 1
                if (over := self._over(looks)) is not None:
                    return over, True
                now = time.monotonic()
                look = now + TICK_INTERVAL_S
        return protocol.TIMED_OUT, True

    def _may_start(self) -> bool:
        most: int = self._limits["processes"]
        pids = process_table.processes(self._own)
        return len(pids) < most and process_table.usage(pids)[0] < most

    def _over(self, looks: int) -> int | None:
        """The limit that the processes exceed, if any."""
        limits = self._limits
        pids = process_table.processes(self._own)
        if len(pids) > _SLACK * limits["processes"]:
            return protocol.TOO_MANY_PROCESSES
        tasks, memory = process_table.usage(pids, self._shared)
        if tasks > _SLACK * limits["processes"]:
            return protocol.TOO_MANY_PROCESSES
        if memory > limits["memory"]:
            return protocol.TOO_MUCH_MEMORY
        if self._mounted:
            files = os.statvfs(self._folder)
            too_many = files.f_files - files.f_ffree > scratch.MAX_ENTRIES
            return protocol.TOO_MUCH_SCRATCH if too_many else None
        if looks % _SCRATCH_TICKS == 0:
            used, entries = scratch.size(self._folder)
            used += scratch.unlinked(pids)
            if used > limits["scratch"] or entries > scratch.MAX_ENTRIES:
                return protocol.TOO_MUCH_SCRATCH
        return None
