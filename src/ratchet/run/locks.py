"""File locks that the kernel releases when their holders end, even by a crash."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType

from ratchet._private_files import make_folder
from ratchet.types import Conflict, StoreError


class FileLock:
    """An exclusive lock on a file.

    Args:
        path: The lock file; its folder is created.
        purpose: What the lock protects, as the subject of an error message.

    Example:
        with FileLock(Path(".ratchet/improve.lock"), "`ratchet improve` in this folder"):
            ...
    """

    def __init__(self, path: Path, purpose: str) -> None:
        self._path = path
        self._purpose = purpose
        self._file = -1

    def acquire(self, *, wait: bool = False) -> int:
        """Acquire the lock and return its file descriptor.

        Child processes that inherit the descriptor hold the lock, too, as long as they live.

        Raises:
            Conflict: The lock is held elsewhere and `wait` is False.
            StoreError: The file cannot be created or locked.
        """
        if self._file >= 0:
            raise Conflict(f"{self._purpose} is already running (in this process).")
        try:
            make_folder(self._path.parent)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreError(
                f"The lock file {self._path} cannot be created: {error.strerror}.",
                hint="Make its folder writable, or use another state folder.",
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip()
            self.release()
            raise Conflict(
                f"{self._purpose} is already running (process {holder or 'unknown'}).",
                hint="Wait for it, or stop it first.",
            ) from None
        except OSError as error:
            self.release()
            raise StoreError(
                f"The file {self._path} cannot be locked: {error.strerror}.",
                hint="Use a state folder on a local disk.",
            ) from None
        # The pid is informative only: a full disk must not prevent the lock.
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode(), 0)
        return self._file

    def release(self) -> None:
        """Release the lock, if this process holds it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()
