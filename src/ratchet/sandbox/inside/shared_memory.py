"""Shared memory without mounts: the supervisor opens what a contained program created itself."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from .notices import Notice

FOLDER = "/dev/shm"  # noqa: S108 - the program gets what it made there, and nothing else
_OPENS = {"open": 1, "openat": 2}
_LINKS = ("link", "linkat")
_REMOVES = ("unlink", "unlinkat")


class SharedMemory:
    """A program's files in the folder that all programs of a machine share."""

    def __init__(self) -> None:
        self._own: set[str] = set()

    def owns(self, path: str) -> bool:
        """Whether a path is in the folder, and belongs to the program or does not exist yet."""
        folder, _, name = path.rpartition("/")
        return folder == FOLDER and (name in self._own or not os.path.lexists(path))

    def answer(self, notice: Notice, paths: list[str]) -> None:
        """Carry out a call on the program's own files, on its behalf.

        Raises:
            OSError: It fails.
        """
        flags_at = _OPENS.get(notice.name)
        if flags_at is not None:
            flags, mode = notice.arguments[flags_at : flags_at + 2]
            descriptor = os.open(paths[0], flags & 0xFFFFFFFF | os.O_NOFOLLOW, mode & 0o777)
            self._own.add(os.path.basename(paths[0]))
            try:
                notice.done(notice.add(descriptor, flags & os.O_CLOEXEC))
            finally:
                os.close(descriptor)
        elif notice.name in _LINKS:
            os.link(paths[1], paths[0], follow_symlinks=False)
            self._own.add(os.path.basename(paths[0]))
            notice.done()
        elif notice.name in _REMOVES:
            os.unlink(paths[0])
            notice.done()
        else:
            notice.refuse(errno.EACCES)

    def clear(self) -> None:
        """Remove what the program left there."""
        for name in self._own:
            try:
                os.unlink(os.path.join(FOLDER, name))
            except OSError:
                continue
        self._own.clear()
