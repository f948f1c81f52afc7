"""The files of a contained program: all readable, some copied on write, no original changed.

Folders that are copied on write are overlays (overlayfs) with their changes in memory. They can be
laid anew, without a trace of what was changed. Source: `overlayfs.rst` of the kernel, and
mount_setattr(2).
"""

from __future__ import annotations

import os
import stat
import struct

from . import kernel, scratch
from .syscalls import architecture

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any

_READ_ONLY, _NO_SUID, _NO_DEVICES, _REMOUNT, _BIND, _RECURSIVE = 1, 2, 4, 32, 4096, 16384
_DETACH = 2
_PRIVATE = 1 << 18
_AT_FOLDER, _AT_RECURSIVE = -100, 0x8000

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
ACCELERATORS = ("nvidia", "dri", "kfd", "dxg", "accel")
"""Prefixes of the names of compute devices."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - it is the program's own


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Make a mount(2) call.

    Raises:
        OSError: The kernel refused it.
    """
    call = _number("mount")
    kernel.system_call(
        call, os.fsencode(source), os.fsencode(target), kind.encode(), flags, options.encode()
    )


def _set_recursively(path: str, *, on: int = 0, off: int = 0, propagation: int = 0) -> None:
    described = struct.pack("=4Q", on, off, propagation, 0)
    kernel.system_call(
        _number("mount_setattr"), _AT_FOLDER, os.fsencode(path), _AT_RECURSIVE, described, 32
    )


def _detach(path: str) -> None:
    kernel.system_call(_number("umount2"), os.fsencode(path), _DETACH)


def _number(name: str) -> int:
    machine = architecture()
    assert machine is not None
    return machine[1][name]


def _held(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _of(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


class Mounts:
    """The mounts of a program, made by a process with a mount namespace of its own.

    Args:
        config: `base` (a folder for this sandbox alone), `copies` (folders that are copied on
            write), `folders` (those that are really written to), `given` (files that stand in
            for others in the copies, by their places), `hidden`, `absent`, `programs`.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._copies: list[str] = config["copies"]
        self._laid = 0
        self._begun: list[set[str]] = []
        mount("proc", "/proc", "proc", _NO_SUID | _NO_DEVICES)
        # Root could otherwise change the kernel's settings in it from any namespace.
        mount("", "/proc", flags=_REMOUNT | _BIND | _READ_ONLY | _NO_SUID | _NO_DEVICES)
        lower = {path: _held(path) for path in self._copies}
        inner = {path: _held(path) for path in _mounted_below(self._copies)}
        _set_recursively("/", on=_READ_ONLY, propagation=_PRIVATE)
        # What is mounted here is hidden below the copies, but reached by its descriptor.
        mount("stage", config["base"], "tmpfs", _NO_SUID | _NO_DEVICES, "mode=0700")
        self._stage = _of(_held(config["base"]))
        self._lower = {path: _of(descriptor) for path, descriptor in lower.items()}
        self._over: list[tuple[str, str]] = [
            (path, _of(descriptor)) for path, descriptor in inner.items()
        ]
        """The mounts on the copies: mount point and source."""
        for number, path in enumerate(config["folders"]):
            self._over.append((path, self._staged(f"folder-{number}", path)))
            _set_recursively(self._over[-1][1], off=_READ_ONLY)
        for number, (path, source) in enumerate(config["given"].items()):
            self._over.append((path, self._staged(f"given-{number}", source)))
            _set_recursively(self._over[-1][1], off=_READ_ONLY)
        own = f"{self._stage}/own"
        os.mkdir(own, 0o700)
        self._over.append((config["base"], _of(_held(own))))
        for path in config["programs"]:  # so that rules on them hold on each new copy, too
            if _within(path, self._copies) and not _within(path, config["folders"]):
                self._over.append((path, _of(_held(path))))
        self._hidden: list[str] = config["hidden"]
        self._absent: list[str] = config["absent"]
        self._nothing = f"{self._stage}/nothing"
        os.close(os.open(self._nothing, os.O_CREAT | os.O_WRONLY, 0o000))
        self._devices()
        self._lay()

    def _staged(self, name: str, path: str) -> str:
        place = f"{self._stage}/{name}"
        if os.path.isdir(path):
            os.mkdir(place)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY))
        mount(path, place, flags=_BIND | _RECURSIVE)
        return _of(_held(place))

    def _devices(self) -> None:
        names = [name for name in os.listdir("/dev") if name.startswith(ACCELERATORS)]
        descriptors = {
            name: _held(f"/dev/{name}") for name in (*DEVICES, *names) if _is_there(name)
        }
        mount("dev", "/dev", "tmpfs", _NO_SUID, "mode=0755")
        for name, descriptor in descriptors.items():
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                os.mkdir(f"/dev/{name}")
            else:
                os.close(os.open(f"/dev/{name}", os.O_CREAT | os.O_WRONLY))
            mount(_of(descriptor), f"/dev/{name}", flags=_BIND | _RECURSIVE)
            os.close(descriptor)
        for name, target in _LINKS:
            os.symlink(target, f"/dev/{name}")
        for name in ("shm", "pts"):
            os.mkdir(f"/dev/{name}")
        mount("devpts", "/dev/pts", "devpts", _NO_SUID, "newinstance,ptmxmode=0666,mode=620")
        mount("shm", SHARED_MEMORY, "tmpfs", _NO_SUID | _NO_DEVICES, "mode=1777")
        mount("", "/dev", flags=_REMOUNT | _BIND | _READ_ONLY | _NO_SUID)

    def _lay(self) -> None:
        """Mount the copies, and on them everything that belongs there."""
        self._laid += 1
        steps = [(path, 0, path) for path in self._copies]
        # What is absent goes from its copy, before anything real is mounted on that.
        steps += [(path, 1, "") for path in self._absent]
        steps += [(path, 2, source) for path, source in self._over]
        steps += [(path, 3, "") for path in self._hidden]
        # Parents before their children, which may lie in a folder that is hidden.
        for path, order, source in sorted(steps, key=lambda step: (step[0].count("/"), step[1])):
            if order == 0:
                self._overlay(path)
            elif order == 1:
                self._remove(path)
            elif order == 2:
                if not os.path.lexists(path):
                    is_folder = os.path.isdir(source)
                    os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
                    if not is_folder:
                        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
                mount(source, path, flags=_BIND | _RECURSIVE)
            elif os.path.isdir(path):
                # Empty, and the program's own: many write their settings beside secrets.
                mount(self._emptied(path), path, flags=_BIND)
            elif os.path.lexists(path):
                mount(self._nothing, path, flags=_BIND)
        self._begun = [set(os.listdir(self._upper(path))) for path in self._copies]

    def _remove(self, path: str) -> None:
        """Remove a path from the copy that it lies in.

        Raises:
            OSError: It lies in no copy, so that it would really be removed.
        """
        if not os.path.lexists(path):
            return
        copy = next((copy for copy in reversed(self._copies) if _within(path, [copy])), "")
        if not copy or os.stat(os.path.dirname(path)).st_dev != os.stat(copy).st_dev:
            raise OSError(f"{path} should not exist, but it is not in a copied folder")
        if os.path.isdir(path) and not os.path.islink(path):
            scratch.empty(path)
            os.rmdir(path)
        else:
            os.unlink(path)

    def _overlay(self, path: str) -> None:
        upper, work = self._upper(path), f"{self._upper(path)}-work"
        os.makedirs(upper)
        os.mkdir(work)
        lower = self._lower[path]
        os.chmod(upper, stat.S_IMODE(os.stat(lower).st_mode))
        options = f"userxattr,lowerdir={lower},upperdir={upper},workdir={work}"
        mount("copy", path, "overlay", _NO_SUID | _NO_DEVICES, options)

    def _emptied(self, path: str) -> str:
        """The empty folder that is shown instead of a hidden one; made anew with the copies."""
        place = f"{self._stage}/{self._laid}/hidden-{self._hidden.index(path)}"
        os.makedirs(place, mode=0o700, exist_ok=True)
        return place

    def _upper(self, path: str) -> str:
        return f"{self._stage}/{self._laid}/{self._copies.index(path)}"

    def original(self, path: str) -> bool:
        """Whether a path in the copies also exists outside."""
        for folder in reversed(self._copies):
            if _within(path, [folder]):
                inner = path[len(folder.rstrip("/")) + 1 :]
                return os.path.lexists(f"{self._lower[folder]}/{inner}")
        return False

    def dirty(self) -> bool:
        """Whether anything was changed in the copies."""
        uppers = [self._upper(path) for path in self._copies]
        # What was removed at the beginning, and its folders, are changes themselves.
        changed = bool(self._absent) or any(
            set(os.listdir(upper)) != begun
            for upper, begun in zip(uppers, self._begun, strict=True)
        )
        own = [self._emptied(path) for path in self._hidden if os.path.isdir(path)]
        return changed or any(os.listdir(folder) for folder in (SHARED_MEMORY, *own))

    def renew(self) -> None:
        """Recreate the copies, without the changes in them."""
        before = f"{self._stage}/{self._laid}"
        for path in reversed(self._copies):
            _detach(path)
        _detach(SHARED_MEMORY)
        mount("shm", SHARED_MEMORY, "tmpfs", _NO_SUID | _NO_DEVICES, "mode=1777")
        self._lay()
        if scratch.empty(before):
            os.rmdir(before)


_LINKS = (
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)


def _is_there(name: str) -> bool:
    return os.path.exists(f"/dev/{name}")


def _mounted_below(folders: list[str]) -> list[str]:
    """Mount points below folders, except hidden ones."""
    places = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            place = line.split()[4].encode("utf-8", "surrogateescape")
            path = os.fsdecode(place.decode("unicode_escape").encode("latin-1"))
            if _within(path, folders) and path not in folders and os.path.exists(path):
                places.append(path)
    return sorted(set(places))


def _within(path: str, folders: list[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)
