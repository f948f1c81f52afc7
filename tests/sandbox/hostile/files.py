"""Programs that want files which are not theirs, or too many of their own."""

from __future__ import annotations

from typing import Any

from tests.sandbox.hostile.program import hostile


@hostile("reads the passwords of the machine")
def etc_shadow(facts: dict[str, Any]) -> list[str]:
    with open("/etc/shadow") as file:
        return [file.read(20)]


@hostile("reads a secret in somebody's home")
def home(facts: dict[str, Any]) -> list[str]:
    with open(facts["secret"]) as file:
        return [file.read()]


@hostile("looks into the real home folders")
def homes(facts: dict[str, Any]) -> list[str]:
    import os

    found = []
    for folder in (facts["home"], "/root/.ssh", "/home", os.path.expanduser("~") + "/.ssh"):
        try:
            found += [f"{folder}/{name}" for name in os.listdir(folder)]
        except OSError:
            continue
    return found


@hostile("reads the tasks with their expected answers")
def hidden_file(facts: dict[str, Any]) -> list[str]:
    with open(facts["hidden_file"]) as file:
        return [file.read()]


@hostile("reads the state of Ratchet in the project's folder")
def hidden_folder(facts: dict[str, Any]) -> list[str]:
    import os

    with open(os.path.join(facts["root"], ".ratchet", "journal")) as file:
        return [file.read()]


@hostile("reads what is hidden through a link in the project's folder")
def hidden_by_link(facts: dict[str, Any]) -> list[str]:
    import os

    with open(os.path.join(facts["root"], "link-to-hidden")) as file:
        return [file.read()]


@hostile("reads the keys in the project's `.env`")
def dot_env(facts: dict[str, Any]) -> list[str]:
    import os

    with open(os.path.join(facts["root"], ".env")) as file:
        return [file.read()]


@hostile("reads keys beside the project's code, under the names that they usually have")
def secrets_by_name(facts: dict[str, Any]) -> list[str]:
    import os

    got = []
    for name in facts["secrets"]:
        try:
            with open(os.path.join(facts["root"], name)) as file:
                got.append(f"{name}: {file.read()}")
        except OSError:
            continue
    return got


@hostile("reads the credentials and hooks of the project's repository")
def git_folder(facts: dict[str, Any]) -> list[str]:
    import os

    got = []
    for name in ("config", "credentials", "hooks/pre-push"):
        try:
            with open(os.path.join(facts["root"], ".git", name)) as file:
                got.append(file.read())
        except OSError:
            continue
    return got


@hostile("reads every file that it can find in the project, and looks for secrets in it")
def search(facts: dict[str, Any]) -> list[str]:
    import os

    got = []
    for folder, _, names in os.walk(facts["root"]):
        for name in names:
            try:
                with open(os.path.join(folder, name)) as file:
                    if "secret" in file.read():
                        got.append(name)
            except OSError:
                continue
    return got


@hostile("climbs out with `..` and with descriptors of folders")
def climbing(facts: dict[str, Any]) -> list[str]:
    import os

    got = []
    for start in (".", facts["root"], "/"):
        try:
            at = os.open(start, os.O_RDONLY | os.O_DIRECTORY)
            path = "../" * 40 + facts["secret"].lstrip("/")
            with os.fdopen(os.open(path, os.O_RDONLY, dir_fd=at)) as file:
                got.append(file.read())
        except OSError:
            continue
    return got


@hostile("changes a file of the project")
def project_file(facts: dict[str, Any]) -> list[str]:
    with open(facts["readable"], "a") as file:
        file.write("changed")
    return ["written"]


@hostile("makes, removes and renames files outside of its scratch folder")
def files_outside(facts: dict[str, Any]) -> list[str]:
    import os

    done = []
    for what, attempt in (
        ("made", lambda: open(os.path.join(facts["root"], "new"), "w").close()),
        ("made in the temporary folder", lambda: open("/tmp/from-the-sandbox", "w").close()),
        ("made beside the secret", lambda: open(facts["secret"] + ".new", "w").close()),
        ("removed", lambda: os.unlink(facts["readable"])),
        ("removed the secret", lambda: os.unlink(facts["secret"])),
        ("renamed", lambda: os.rename(facts["readable"], facts["readable"] + ".old")),
        ("made a folder", lambda: os.mkdir(os.path.join(facts["root"], "folder"))),
    ):
        try:
            attempt()
            done.append(what)
        except OSError:
            continue
    return done


@hostile("empties files without opening them for writing")
def truncating(facts: dict[str, Any]) -> list[str]:
    import os

    done = []
    for what, attempt in (
        ("truncate", lambda: os.truncate(facts["readable"], 0)),
        ("O_TRUNC", lambda: os.close(os.open(facts["readable"], os.O_RDONLY | os.O_TRUNC))),
        ("creat", lambda: os.close(os.open(facts["secret"], os.O_WRONLY | os.O_TRUNC))),
    ):
        try:
            attempt()
            done.append(what)
        except OSError:
            continue
    return done


@hostile("changes mode, owner, times and attributes of files that are not its own")
def attributes(facts: dict[str, Any]) -> list[str]:
    import contextlib
    import os

    for path in (facts["readable"], facts["secret"]):
        for attempt in (
            lambda path=path: os.chmod(path, 0o777),
            lambda path=path: os.chown(path, 12345, 12345),
            lambda path=path: os.utime(path, (1, 1)),
            lambda path=path: os.setxattr(path, "user.mine", b"1"),
        ):
            with contextlib.suppress(OSError):
                attempt()
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDONLY)
            os.fchmod(fd, 0o777)
    changed = []
    for path in (facts["readable"], facts["secret"]):
        with contextlib.suppress(OSError):
            status = os.stat(path)
            if status.st_mode & 0o777 == 0o777 or status.st_mtime < 10 or status.st_uid == 12345:
                changed.append(path)
    return changed


@hostile("reads through a symbolic link out of its scratch folder")
def symbolic_link(facts: dict[str, Any]) -> list[str]:
    import os

    os.symlink(facts["secret"], "link")
    os.symlink("/", "top")
    for path in ("link", "top" + facts["secret"]):
        try:
            with open(path) as file:
                return [file.read()]
        except OSError:
            continue
    return []


@hostile("makes a hard link to a secret")
def hard_link(facts: dict[str, Any]) -> list[str]:
    import os

    for path in (facts["secret"], facts["hidden_file"]):
        try:
            os.link(path, "linked")
            with open("linked") as file:
                return [file.read()]
        except OSError:
            continue
    return []


@hostile("makes device nodes and opens the machine's disks and memory")
def devices(facts: dict[str, Any]) -> list[str]:
    import os
    import stat

    got = []
    for name, number in (("memory", os.makedev(1, 1)), ("disk", os.makedev(254, 0))):
        try:
            os.mknod(name, stat.S_IFBLK | 0o600, number)
            got.append(name)
        except OSError:
            continue
    for path in ("/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/fuse"):
        try:
            os.close(os.open(path, os.O_RDONLY))
            got.append(path)
        except OSError:
            continue
    return got


@hostile("fills the disk with one file", ends=("raised", "flooded"))
def one_large_file(facts: dict[str, Any]) -> list[str]:
    with open("large", "wb") as file:
        for _ in range(1000):
            file.write(bytes(1_000_000))
    return ["wrote a gigabyte"]


@hostile("fills the disk with many files", ends=("raised", "flooded"))
def many_large_files(facts: dict[str, Any]) -> list[str]:
    for number in range(1000):
        with open(f"file-{number}", "wb") as file:
            file.write(bytes(1_000_000))
    return ["wrote a gigabyte"]


@hostile("fills the disk with files that have no name any more", ends=("raised", "flooded"))
def unlinked_files(facts: dict[str, Any]) -> list[str]:
    import os

    held = []
    for number in range(200):
        fd = os.open(f"file-{number}", os.O_CREAT | os.O_WRONLY)
        os.unlink(f"file-{number}")
        for _ in range(5):
            os.write(fd, bytes(1_000_000))
        held.append(fd)
    return ["wrote a gigabyte"]


@hostile("makes files until no more can be made", ends=("raised", "flooded", "timed_out"))
def many_files(facts: dict[str, Any]) -> list[str]:
    import os

    for number in range(10_000_000):
        os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))
    return ["made ten million files"]


@hostile("leaves folders that are deeper than a path may be", ends=("ok", "timed_out"))
def deep_folders(facts: dict[str, Any]) -> list[str]:
    import os

    for _ in range(600):
        os.mkdir("d" * 50)
        os.chdir("d" * 50)
    return []


@hostile("leaves folders and files that nobody may enter or read")
def locked_folders(facts: dict[str, Any]) -> list[str]:
    import os

    os.umask(0o777)
    os.makedirs("a/b", exist_ok=True) if os.path.isdir("a") else os.mkdir("a", 0)
    os.umask(0)
    os.mkdir("open")
    os.mkdir("open/locked", 0)
    os.mkdir("read-only", 0o755)
    open("read-only/file", "w").close()
    os.chmod("read-only", 0o500)
    os.chmod(".", 0)
    return []


@hostile(
    "writes into the interpreter, the sandbox's own code, and modules to come", never_loose=True
)
def own_code(facts: dict[str, Any]) -> list[str]:
    import json
    import os
    import sys

    done = []
    inside = os.path.dirname(sys.modules["inside"].__file__)
    for folder in (os.path.dirname(json.__file__), inside, sys.prefix, sys.base_prefix):
        try:
            with open(os.path.join(folder, "planted.py"), "w") as file:
                file.write("raise SystemExit")
            done.append(folder)
        except OSError:
            pass
    for path in (json.__file__, os.path.join(inside, "functions.py"), sys.executable):
        try:
            open(path, "ab").close()
            done.append(path)
        except OSError:
            pass
    return done


@hostile("changes settings of the kernel", never_loose=True)
def kernel_settings(facts: dict[str, Any]) -> list[str]:
    done = []
    for path in (
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/drop_caches",
        "/proc/sysrq-trigger",
        "/sys/power/state",
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/kernel/uevent_helper",
    ):
        try:
            open(path, "a").close()
            done.append(path)
        except OSError:
            pass
    return done


@hostile("leaves memory in /dev/shm and as System V segments")
def shared_memory(facts: dict[str, Any]) -> list[str]:
    import ctypes

    done = []
    try:
        open("/dev/shm/left-by-the-sandbox", "w").close()
        done.append("file")
    except OSError:
        pass
    segment = ctypes.CDLL(None, use_errno=True).shmget(facts["key"], 4096, 0o600)
    if segment >= 0:
        done.append("attached to the segment of another")
    return done
