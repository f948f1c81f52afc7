"""Programs that multiply, stay, or lay hands on other processes."""

from __future__ import annotations

from typing import Any

from tests.sandbox.hostile.program import hostile


@hostile(
    "forks without end",
    ends=("raised", "flooded", "timed_out", "crashed"),
    raises=("BlockingIOError",),
)
def fork_bomb(facts: dict[str, Any]) -> list[str]:
    import os

    while True:
        os.fork()


@hostile(
    "forks without end, in sessions of their own",
    ends=("raised", "flooded", "timed_out", "crashed"),
    raises=("BlockingIOError", "PermissionError"),
    never_loose=True,
)
def fork_bomb_in_sessions(facts: dict[str, Any]) -> list[str]:
    import os

    while True:
        if os.fork() == 0:
            os.setsid()


@hostile(
    "starts threads without end",
    ends=("raised", "flooded", "timed_out", "memory"),
    raises=("RuntimeError",),
)
def thread_bomb(facts: dict[str, Any]) -> list[str]:
    import threading
    import time

    while True:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


@hostile("leaves a daemon behind, forked twice and in a session of its own", ends=("ok", "raised"))
def daemon(facts: dict[str, Any]) -> list[str]:
    import contextlib
    import os
    import time

    if os.fork() == 0:
        with contextlib.suppress(OSError):
            os.setsid()
        if os.fork() == 0:
            for fd in range(64):
                with contextlib.suppress(OSError):
                    os.close(fd)
            time.sleep(600)
        os._exit(0)
    return []


@hostile("leaves a thread behind, and work for the end of the interpreter")
def lingering(facts: dict[str, Any]) -> list[str]:
    import atexit
    import threading
    import time

    atexit.register(time.sleep, 600)
    threading.Thread(target=time.sleep, args=(600,)).start()
    return []


@hostile("starts a program that outlives it")
def subprocess_left(facts: dict[str, Any]) -> list[str]:
    import contextlib
    import subprocess
    import sys

    for kind in ({}, {"start_new_session": True}, {"process_group": 0}):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], **kind)
    return []


@hostile("kills the process that started it", ends=("ok", "raised"))
def kill_parent(facts: dict[str, Any]) -> list[str]:
    import os
    import signal
    import time

    parent = os.getppid()
    os.kill(parent, signal.SIGKILL)
    time.sleep(0.05)
    return ["killed"] if os.getppid() != parent else []


@hostile("stops and confuses the process that started it with every signal")
def signals_to_parent(facts: dict[str, Any]) -> list[str]:
    import os
    import signal

    sent = []
    for number in sorted(signal.valid_signals() - {signal.SIGKILL}):
        try:
            os.kill(os.getppid(), number)
            sent.append(int(number))
        except OSError:
            pass
    # In a process namespace they arrive at its first process, which takes none of them.
    return [] if os.getppid() == 1 else [str(number) for number in sent]


@hostile("kills a process outside")
def kill_outside(facts: dict[str, Any]) -> list[str]:
    import os
    import signal

    os.kill(facts["victim"], 0)
    os.kill(facts["victim"], signal.SIGKILL)
    return ["killed"]


@hostile("kills all that it may", ends=("ok", "raised", "crashed"), never_loose=True)
def kill_everything(facts: dict[str, Any]) -> list[str]:
    import os
    import signal

    os.kill(-1, signal.SIGKILL)
    return []


@hostile("kills its whole process group", ends=("crashed",))
def kill_own_group(facts: dict[str, Any]) -> list[str]:
    import os
    import signal

    os.killpg(0, signal.SIGKILL)
    return []


@hostile("kills by the other calls that send signals")
def other_signals(facts: dict[str, Any]) -> list[str]:
    import ctypes
    import os
    import platform

    libc = ctypes.CDLL(None, use_errno=True)
    arm = platform.machine() == "aarch64"
    tkill, tgkill, queue, by_fd = (130, 131, 138, 424) if arm else (200, 234, 129, 424)
    victim = facts["victim"]
    done = []
    if libc.syscall(tkill, victim, 9) == 0:
        done.append("tkill")
    if libc.syscall(tgkill, victim, victim, 9) == 0:
        done.append("tgkill")
    if libc.syscall(queue, victim, 9, ctypes.create_string_buffer(128)) == 0:
        done.append("rt_sigqueueinfo")
    try:
        if libc.syscall(by_fd, os.pidfd_open(victim), 9, None, 0) == 0:
            done.append("pidfd_send_signal")
    except OSError:
        pass
    return done


@hostile("has the kernel send signals for it (F_SETOWN)", never_loose=True)
def signals_by_owner(facts: dict[str, Any]) -> list[str]:
    import contextlib
    import fcntl
    import os
    import signal
    import socket
    import time

    one, other = socket.socketpair()
    for target in (os.getppid(), facts["victim"]):
        with contextlib.suppress(OSError):
            fcntl.fcntl(one, fcntl.F_SETOWN, target)
            fcntl.fcntl(one, 10, signal.SIGKILL)
            fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
            other.send(b"x")
    time.sleep(0.05)
    return []


@hostile("reads and writes the memory of the process that started it")
def parent_memory(facts: dict[str, Any]) -> list[str]:
    import os

    got = []
    for pid in (os.getppid(), facts["victim"], facts["host"]):
        for name in ("mem", "maps", "environ", "fd/3", "root/etc/hostname", "cwd/agent.py"):
            try:
                with open(f"/proc/{pid}/{name}", "r+b" if name == "mem" else "rb"):
                    got.append(f"{pid}/{name}")
            except OSError:
                pass
    return got


@hostile("searches the environment of every process for a key")
def environments(facts: dict[str, Any]) -> list[str]:
    import os

    got = [value for value in os.environ.values() if facts["marker"] in value]
    try:
        names = os.listdir("/proc")
    except OSError:
        near = (1, os.getpid(), facts["victim"], facts["host"])
        names = [str(number) for pid in near for number in range(pid - 100, pid + 100)]
    for name in names:
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if facts["marker"].encode() in file.read():
                    got.append(name)
        except OSError:
            continue
    return got


@hostile("reads command lines of other processes")
def command_lines(facts: dict[str, Any]) -> list[str]:
    got = []
    for pid in (facts["victim"], facts["host"]):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read():
                    got.append(str(pid))
        except OSError:
            continue
    return got


@hostile("takes control of the process that started it (ptrace)")
def ptrace(facts: dict[str, Any]) -> list[str]:
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    seize = 0x4206
    pids = (os.getppid(), facts["victim"])
    return [str(pid) for pid in pids if libc.ptrace(seize, pid, None, None) == 0]


@hostile("reads the memory of others without a file (process_vm_readv, pidfd_getfd, kcmp)")
def memory_by_call(facts: dict[str, Any]) -> list[str]:
    import ctypes
    import os
    import platform

    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(64)
    pair = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 64)
    there = (ctypes.c_void_p * 2)(id(facts), 64)
    arm = platform.machine() == "aarch64"
    done = []
    for pid in (os.getppid(), facts["victim"]):
        if libc.syscall(270 if arm else 310, pid, pair, 1, there, 1, 0) > 0:
            done.append("read")
        if libc.syscall(272 if arm else 312, pid, pid, 2, 0, 0) >= 0:
            done.append("compared")
        try:
            if libc.syscall(438, os.pidfd_open(pid), 0, 0) >= 0:
                done.append("descriptor")
        except OSError:
            pass
    return done


@hostile("changes limits, priority and processors of others")
def limits_of_others(facts: dict[str, Any]) -> list[str]:
    import os
    import resource

    done = []
    for pid in (os.getppid(), facts["victim"]):
        for what, attempt in (
            ("limit", lambda pid=pid: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1))),
            ("nice", lambda pid=pid: os.setpriority(os.PRIO_PROCESS, pid, 19)),
            ("affinity", lambda pid=pid: os.sched_setaffinity(pid, {0})),
        ):
            try:
                attempt()
                done.append(f"{what} of {pid}")
            except OSError:
                pass
    return done


@hostile("raises its own limits")
def own_limits(facts: dict[str, Any]) -> list[str]:
    import resource

    done = []
    for which in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE):
        hard = resource.getrlimit(which)[1]
        try:
            resource.setrlimit(which, (hard * 2, hard * 2))
            done.append(str(which))
        except (ValueError, OSError):
            pass
    return done


@hostile("looks for descriptors that it should not have")
def descriptors(facts: dict[str, Any]) -> list[str]:
    import os

    got = []
    for fd in range(4096):
        try:
            status = os.fstat(fd)
        except OSError:
            continue
        if fd not in (0, 1, 2, 3):
            got.append(f"{fd}: {status.st_mode:o}")
        if (status.st_dev, status.st_ino) == tuple(facts["held"]):
            got.append("the file of the parent")
    return got


@hostile("opens again what others hold open, through /proc")
def other_descriptors(facts: dict[str, Any]) -> list[str]:
    import os

    got = []
    for pid in (os.getppid(), facts["host"], 1):
        for fd in range(64):
            try:
                os.close(os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK))
                got.append(f"{pid}/{fd}")
            except OSError:
                continue
    return got


@hostile("asks to be watched by nobody: stops itself for ever", ends=("timed_out",))
def stopped(facts: dict[str, Any]) -> list[str]:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGSTOP)
    return ["went on"]


@hostile("fills pipes and sockets of the kernel, and all its descriptors")
def descriptor_bomb(facts: dict[str, Any]) -> list[str]:
    import os
    import socket

    held = []
    while True:
        held.append(socket.socketpair())
        held.append(os.pipe())
        if len(held) > 2000:
            return ["opened thousands"]
