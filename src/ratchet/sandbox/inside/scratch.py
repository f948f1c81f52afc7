"""The scratch folder of a sandbox: measure it, and empty it whatever it contains."""

from __future__ import annotations

import os
import stat

MAX_ENTRIES = 20_000
"""Maximum number of files, whatever their size."""


def size(folder: str) -> tuple[int, int]:
    """Bytes on disk and number of entries below a folder; counting stops past MAX_ENTRIES."""
    used = entries = 0
    waiting = [folder]
    while waiting and entries <= MAX_ENTRIES:
        try:
            with os.scandir(waiting.pop()) as listed:
                for entry in listed:
                    entries += 1
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    used += status.st_blocks * 512
                    if stat.S_ISDIR(status.st_mode):
                        waiting.append(entry.path)
        except OSError:
            continue
    return used, entries


def unlinked(pids: list[int]) -> int:
    """Bytes of deleted files that processes hold open."""
    used = 0
    for pid in pids:
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                status = os.stat(f"/proc/{pid}/fd/{fd}")
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                    used += status.st_blocks * 512
        except OSError:
            continue
    return used


def empty(folder: str) -> bool:
    """Remove everything in a folder, however deep; nothing may write there meanwhile.

    Folders are moved up rather than entered, so that no depth is too deep.

    Returns:
        Whether it is empty now.
    """
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    lifted = 0
    mark = os.urandom(8).hex()  # a name that sandboxed code cannot have guessed
    try:
        while names := os.listdir(top):
            for name in names:
                if not _is_folder(top, name):
                    os.unlink(name, dir_fd=top)
                    continue
                inner = _opened(top, name)
                try:
                    for deeper in os.listdir(inner):
                        if _is_folder(inner, deeper):
                            os.rename(deeper, f"{mark}-{lifted}", src_dir_fd=inner, dst_dir_fd=top)
                            lifted += 1
                        else:
                            os.unlink(deeper, dir_fd=inner)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)
    except OSError:
        return False
    finally:
        os.close(top)
    return True


def remove(folder: str) -> None:
    """Remove a scratch folder outside a sandbox, and the folder created to contain it."""
    try:
        if empty(folder):
            os.rmdir(folder)
        os.rmdir(os.path.dirname(folder))
    except OSError:
        pass  # it is gone already, or stays in the system's temporary folder


def _is_folder(at: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)


def _opened(at: int, name: str) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        inner = os.open(name, flags, dir_fd=at)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=at)
        inner = os.open(name, flags, dir_fd=at)
    # Emptying or moving a folder requires write permission on it.
    os.fchmod(inner, 0o700)
    for deeper in os.listdir(inner):
        if _is_folder(inner, deeper):
            os.chmod(deeper, 0o700, dir_fd=inner)
    return inner
