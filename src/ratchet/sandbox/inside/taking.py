"""Files that a contained program wrote in its copies, taken out of them when it has ended."""

from __future__ import annotations

import os
import stat

_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ENTERING = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_BYTES = 64 * 1024 * 1024
"""How much of a file is taken."""


class TakenFiles:
    """Files to take, marked before the program starts: what was there from before is left.

    Links are not followed, wherever they are in a path: the program may have made them.

    Args:
        places: Where each file goes, by its path; neither is a link. Its folder is made.
    """

    def __init__(self, places: dict[str, str]) -> None:
        self._places = places
        for path in places:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        self._before = {path: _mark(path) for path in places}

    def take(self) -> None:
        """Copy the regular files that were written since."""
        for path, target in self._places.items():
            try:
                descriptor = _opened(path)
            except OSError:
                continue  # there is none
            with open(descriptor, "rb") as file:
                status = os.fstat(file.fileno())
                written = _of(status) != self._before[path]
                if written and stat.S_ISREG(status.st_mode):
                    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
                    try:
                        with open(os.open(target, flags, 0o600), "wb") as copy:
                            copy.write(file.read(MAX_BYTES))
                    except OSError:
                        continue  # the program put something in its place: nothing was taken


def _opened(path: str) -> int:
    *folders, name = path.strip("/").split("/")
    inside = os.open("/", _ENTERING)
    try:
        for folder in folders:
            entered = os.open(folder, _ENTERING, dir_fd=inside)
            os.close(inside)
            inside = entered
        return os.open(name, _READING, dir_fd=inside)
    finally:
        os.close(inside)


def _mark(path: str) -> tuple[int, ...] | None:
    try:
        return _of(os.lstat(path))
    except OSError:
        return None


def _of(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
