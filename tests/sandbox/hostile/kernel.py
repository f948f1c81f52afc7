"""Programs that ask the kernel for more rights, or for a way around the rules."""

from __future__ import annotations

from typing import Any

from tests.sandbox.hostile.program import hostile


@hostile("becomes root, or somebody else")
def become(facts: dict[str, Any]) -> list[str]:
    import os

    done = []
    for what, attempt in (
        ("setuid", lambda: os.setresuid(12345, 12345, 12345)),
        ("setgid", lambda: os.setresgid(12345, 12345, 12345)),
        ("setgroups", lambda: os.setgroups([0])),
    ):
        try:
            attempt()
            done.append(what)
        except OSError:
            pass
    return done


@hostile("gets rights from a program that has them (setuid root)")
def setuid_program(facts: dict[str, Any]) -> list[str]:
    import os
    import subprocess

    found = [path for path in ("/usr/bin/su", "/bin/su", "/usr/bin/mount") if os.path.exists(path)]
    if not found:
        return []
    ran = subprocess.run(
        ["/bin/sh", "-c", "cat /proc/self/status /etc/shadow; umount /proc"],
        capture_output=True,
        text=True,
    )
    lines = [line.split() for line in ran.stdout.splitlines()]
    got = [" ".join(line) for line in lines if line[:1] == ["CapEff:"] and int(line[1], 16)]
    return got + (["/etc/shadow"] if "root:" in ran.stdout else [])


@hostile("keeps capabilities")
def capabilities(facts: dict[str, Any]) -> list[str]:
    import ctypes
    import struct

    libc = ctypes.CDLL(None, use_errno=True)
    data = ctypes.create_string_buffer(24)
    header = struct.pack("=Ii", 0x20080522, 0)
    if libc.capget(header, data) != 0:
        return []
    effective, permitted = struct.unpack_from("=II", data.raw)
    got = [hex(effective | permitted)] if effective | permitted else []
    if libc.capset(header, struct.pack("=IIIIII", *[0xFFFFFFFF] * 6)) == 0:
        got.append("capset")
    return got


@hostile("makes a user namespace in which it is root")
def user_namespace(facts: dict[str, Any]) -> list[str]:
    import ctypes
    import os
    import platform

    libc = ctypes.CDLL(None, use_errno=True)
    arm = platform.machine() == "aarch64"
    done = []
    if libc.unshare(0x10000000) == 0:
        done.append("unshare")
    for number in (220 if arm else 56, 435):
        arguments = ctypes.create_string_buffer(88)
        arguments[0:8] = (0x10000000).to_bytes(8, "little")
        arguments[32:40] = (17).to_bytes(8, "little")
        if number == 435:
            pid = libc.syscall(number, arguments, 88)
        else:
            pid = libc.syscall(number, 0x10000000 | 17, None, None, None, None)
        if pid == 0:
            os._exit(0)
        if pid > 0:
            done.append(str(number))
    return done


@hostile("mounts, changes its root, and enters other namespaces", never_loose=True)
def mounts(facts: dict[str, Any]) -> list[str]:
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    done = []
    os.mkdir("m")
    if libc.mount(b"none", b"m", b"tmpfs", 0, None) == 0:
        done.append("mount")
    if libc.mount(b"/", b"m", None, 4096, None) == 0:
        done.append("bind")
    if libc.umount2(b"/proc", 2) == 0:
        done.append("umount")
    try:
        os.chroot("m")
        done.append("chroot")
    except OSError:
        pass
    for number in (428, 429, 430, 442):  # open_tree, move_mount, fsopen, mount_setattr
        if libc.syscall(number, -100, b"/", 1, 0, 0) >= 0:
            done.append(str(number))
    return done


@hostile("uses io_uring, which does what calls do without making them")
def io_uring(facts: dict[str, Any]) -> list[str]:
    import ctypes

    made = ctypes.CDLL(None, use_errno=True).syscall(425, 4, ctypes.create_string_buffer(120))
    return ["made a ring"] if made >= 0 else []


@hostile("runs a program from memory (memfd and execveat)")
def from_memory(facts: dict[str, Any]) -> list[str]:
    import os

    with open("/bin/true", "rb") as file:
        program = file.read()
    fd = os.memfd_create("program", 0)
    os.write(fd, program)
    if os.fork() == 0:
        os.execve(fd, ["true"], {})
    _, status = os.wait()
    return ["ran"] if status == 0 else []


@hostile("hides memory in files without a name, which no limit on memory counts", ends=("raised",))
def memory_files(facts: dict[str, Any]) -> list[str]:
    import os

    fd = os.memfd_create("hidden", 0)
    os.ftruncate(fd, 2**30)
    return ["made a gigabyte"]


@hostile("reads keys of the kernel's keyring")
def keyring(facts: dict[str, Any]) -> list[str]:
    import ctypes
    import platform

    libc = ctypes.CDLL(None, use_errno=True)
    keyctl, add_key = (219, 217) if platform.machine() == "aarch64" else (250, 248)
    done = []
    if libc.syscall(keyctl, 0, -3, 1) >= 0:
        done.append("keyring")
    if libc.syscall(add_key, b"user", b"mine", b"x", 1, -2) >= 0:
        done.append("key")
    return done


@hostile("loads programs into the kernel and watches it (bpf, perf, userfaultfd)")
def kernel_programs(facts: dict[str, Any]) -> list[str]:
    import ctypes
    import platform

    libc = ctypes.CDLL(None, use_errno=True)
    numbers = (280, 241, 282) if platform.machine() == "aarch64" else (321, 298, 323)
    buffer = ctypes.create_string_buffer(128)
    buffer[0:4] = (2).to_bytes(4, "little")
    done = []
    # A socket filter of two instructions: r0 = 0; exit.
    code = ctypes.create_string_buffer(bytes.fromhex("b700000000000000 9500000000000000"))
    license_text = ctypes.create_string_buffer(b"GPL")
    load = ctypes.create_string_buffer(128)
    load[0:8] = (1).to_bytes(4, "little") + (2).to_bytes(4, "little")
    load[8:16] = ctypes.addressof(code).to_bytes(8, "little")
    load[16:24] = ctypes.addressof(license_text).to_bytes(8, "little")
    if libc.syscall(numbers[0], 5, load, 128) >= 0:
        done.append("bpf")
    event = ctypes.create_string_buffer(128)
    event[0:8] = (1).to_bytes(4, "little") + (128).to_bytes(4, "little")
    if libc.syscall(numbers[1], event, -1, 0, -1, 0) >= 0:
        done.append("perf")
    if libc.syscall(numbers[2], 0) >= 0:
        done.append("userfaultfd")
    return done


@hostile("sets the clock, the host name, swap and accounting", never_loose=True)
def machine_settings(facts: dict[str, Any]) -> list[str]:
    import contextlib
    import ctypes
    import socket
    import time

    libc = ctypes.CDLL(None, use_errno=True)
    done = []
    with contextlib.suppress(OSError):
        time.clock_settime(time.CLOCK_REALTIME, time.time())
        done.append("clock")
    with contextlib.suppress(OSError):
        socket.sethostname("mine")
        done.append("host name")
    if libc.swapoff(b"/nothing") == 0 or ctypes.get_errno() != 1:
        done.append("swap")
    if libc.acct(None) == 0:
        done.append("accounting")
    return done


@hostile("uses the second call interface of x86_64 (x32), which filters forget")
def second_interface(facts: dict[str, Any]) -> list[str]:
    import ctypes
    import platform

    if platform.machine() != "x86_64":
        return []
    libc = ctypes.CDLL(None, use_errno=True)
    made = libc.syscall(0x40000000 + 41, 2, 1, 0)  # socket
    return ["made a socket"] if made >= 0 else []


@hostile(
    "uses the 32-bit calls of x86_64 in machine code of its own",
    ends=("crashed", "raised", "ok"),
    never_loose=True,
)
def machine_code(facts: dict[str, Any]) -> list[str]:
    import ctypes
    import mmap
    import platform

    if platform.machine() != "x86_64":
        return []
    # mov eax, 20 (getpid of i386); int 0x80; ret
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    answer = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    return ["called"] if answer > 0 else []


@hostile("opens files by their number on disk")
def by_handle(facts: dict[str, Any]) -> list[str]:
    import ctypes
    import platform

    libc = ctypes.CDLL(None, use_errno=True)
    name_to_handle = 264 if platform.machine() == "aarch64" else 303
    handle = ctypes.create_string_buffer((128).to_bytes(4, "little") + bytes(140), 144)
    mount = ctypes.c_int()
    made = libc.syscall(name_to_handle, -100, b"/", handle, ctypes.byref(mount), 0)
    return ["a handle"] if made == 0 else []


@hostile("takes the rules off again")
def rules_off(facts: dict[str, Any]) -> list[str]:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    done = []
    if libc.prctl(38, 0, 0, 0, 0) == 0:
        done.append("no_new_privs")
    if libc.prctl(22, 0, 0, 0, 0) == 0:
        done.append("seccomp")
    if libc.prctl(28, 0, 0, 0, 0) == 0:
        done.append("securebits")
    try:
        with open(facts["secret"]) as file:
            done.append(file.read())
    except OSError:
        pass
    return done


@hostile("types into the terminal of the person (TIOCSTI)", never_loose=True)
def terminal(facts: dict[str, Any]) -> list[str]:
    import fcntl
    import os
    import termios

    done = []
    for path in ("/dev/tty", "/dev/pts/0", "/dev/console"):
        try:
            fd = os.open(path, os.O_RDWR)
            fcntl.ioctl(fd, termios.TIOCSTI, b"\n")
            done.append(path)
        except OSError:
            continue
    return done


@hostile("leaves a core dump", ends=("crashed",))
def core_dump(facts: dict[str, Any]) -> list[str]:
    import os
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
    except (ValueError, OSError):
        pass
    os.abort()
