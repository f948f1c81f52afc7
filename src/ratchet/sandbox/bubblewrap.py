"""Build the `bwrap` command line for a view of the file system."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import cache

from ratchet.sandbox.view import DEVICES, FileView

SCRATCH = "/ratchet-scratch"
"""Path of the scratch folder inside the sandbox."""
TEMPORARY, SHARED_MEMORY = "/tmp", "/dev/shm"  # noqa: S108 - they are the sandbox's own
_SHARED_BYTES = 64 * 1024 * 1024


@cache
def program() -> str | None:
    """The path of `bwrap`, or None if it is not installed."""
    return shutil.which("bwrap")


def command_line(
    view: FileView,
    *,
    scratch_bytes: int,
    network: bool = False,
    commands: bool = False,
    files: Mapping[str, int] | None = None,
) -> list[str]:
    """The command line that starts a program in its own namespaces, up to that program.

    Args:
        view: The visible part of the file system.
        scratch_bytes: Size of its scratch folder, which is in memory.
        network: Stay in this machine's network.
        commands: Provide /tmp and shared memory, as test commands need.
        files: Additional files, by descriptors that hold their content. With them the first process
            may listen on every port of its own network.
    """
    executable = program()
    assert executable is not None
    words = [executable, "--unshare-all", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"]
    words += ["--hostname", "sandbox"]
    if files:
        words += ["--cap-add", "CAP_NET_BIND_SERVICE"]
    if network:
        words.append("--share-net")
    for place, target in view.links:
        words += ["--symlink", target, place]
    mounts: list[tuple[str, int, list[str]]] = []
    mounts += [(path, 1, ["--ro-bind", path, path]) for path in view.read]
    mounts += [(path, 2, ["--bind", path, path]) for path in view.write]
    mounts += [(path, 3, _masked(path)) for path in view.hide]
    mounts.append((SCRATCH, 0, _memory(SCRATCH, scratch_bytes, "0700")))
    if commands:
        mounts.append((TEMPORARY, 0, _memory(TEMPORARY, scratch_bytes, "1777")))
        mounts.append((SHARED_MEMORY, 0, _memory(SHARED_MEMORY, _SHARED_BYTES, "1777")))
    # Read-only: root could otherwise change the kernel's settings in it from any namespace.
    mounts.append(("/proc", 0, ["--proc", "/proc", "--remount-ro", "/proc"]))
    mounts += [(device, 0, ["--dev-bind", device, device]) for device in DEVICES]
    for path, fd in (files or {}).items():
        mounts.append((path, 2, ["--ro-bind-data", str(fd), path]))
    # Parents before their children, and shown paths before the masks on them.
    for _, _, mount in sorted(
        mounts, key=lambda planned: (planned[0].count("/"), planned[1], planned[0])
    ):
        words += mount
    for name, target in _STREAMS if commands else ():
        words += ["--symlink", target, name]
    return [*words, "--remount-ro", "/", "--"]


_STREAMS = (
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
)


def _memory(place: str, size: int, mode: str) -> list[str]:
    return ["--size", str(size), "--perms", mode, "--tmpfs", place]


def _masked(path: str) -> list[str]:
    if os.path.isdir(path):
        return [*_memory(path, 4096, "0000"), "--remount-ro", path]
    if os.path.exists(path):
        # A device on a nodev mount cannot be opened.
        return ["--ro-bind", "/dev/null", path]
    return []
