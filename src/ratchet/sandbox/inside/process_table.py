"""Processes of a sandbox and their resource usage, read from /proc."""

from __future__ import annotations

import os
import signal
import time

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = os.sysconf("SC_PAGE_SIZE")


def processes(root: int) -> list[int]:
    """The living descendants of a process; in its own process namespace, all others."""
    if root == 1:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]
    pids: list[int] = []
    waiting = [root]
    while waiting:
        for child in _children(waiting.pop()):
            pids.append(child)
            waiting.append(child)
    return pids


def _children(pid: int) -> Iterator[int]:
    folder = f"/proc/{pid}/task"
    try:
        for task in os.listdir(folder):
            try:
                with open(f"{folder}/{task}/children", "rb") as listed:
                    yield from map(int, listed.read().split())
            except FileNotFoundError:
                if not os.path.exists(f"{folder}/{task}"):
                    continue
                yield from _by_parent(pid)  # a kernel without CONFIG_PROC_CHILDREN
                return
    except OSError:
        return


def _by_parent(parent: int) -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(int(name))) and int(fields[1]) == parent:
            yield int(name)


def _stat(pid: int) -> list[bytes] | None:
    """The fields after the process name in its stat file; the first is its state."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return file.read(1024).rpartition(b")")[2].split()
    except OSError:
        return None


def usage(pids: list[int], shared: int = 0) -> tuple[int, int]:
    """Usage of these processes: number of tasks, threads included, and bytes of memory.

    Args:
        pids: Their ids.
        shared: Bytes of each that are shared with its parent and not counted.
    """
    tasks = memory = 0
    for pid in pids:
        if (fields := _stat(pid)) and fields[0] != b"Z":
            tasks += int(fields[17])
            memory += max(0, int(fields[21]) * _PAGE - shared)
    return tasks, memory


def resident(pid: int) -> int:
    """Resident bytes of a process."""
    fields = _stat(pid)
    return int(fields[21]) * _PAGE if fields else 0


def address_space() -> int:
    """Bytes of address space that this process has mapped."""
    with open("/proc/self/statm", "rb", buffering=0) as file:
        return int(file.read(64).split()[0]) * _PAGE


def end_group(group: int) -> None:
    """Kill a process group atomically: the kernel blocks forks meanwhile."""
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # it ended before it became a group


def end_all(root: int, timeout_s: float = 5.0) -> bool:
    """Kill and reap all descendants of this process.

    Args:
        root: This process's id. 1 means that it is the first of a namespace, and that all others
            in it are its descendants.
        timeout_s: Seconds after which it gives up.

    Returns:
        Whether none is left.
    """
    give_up = time.monotonic() + timeout_s
    while True:
        # The kernel signals the whole namespace atomically: no process can fork away.
        for pid in [-1] if root == 1 else processes(root):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if not _reap():
            return True
        if time.monotonic() > give_up:
            return False
        time.sleep(0.001)


def end_session(session: int, timeout_s: float = 5.0) -> None:
    """Kill all processes of a session from outside, after its own watcher was killed."""
    give_up = time.monotonic() + timeout_s
    while time.monotonic() < give_up:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        left = [pid for pid in pids if (stat := _stat(pid)) and int(stat[3]) == session]
        if not [pid for pid in left if (stat := _stat(pid)) and stat[0] != b"Z"]:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.001)


def _reap() -> bool:
    """Reap ended children; return whether others are left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
