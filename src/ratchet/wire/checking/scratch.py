"""Where a check puts its copy: in memory if it is small enough, which is many times faster."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108
LARGEST = 256_000_000
"""Bytes of a copy in memory, at most."""
BLOCK = 4096
"""Bytes that the smallest file takes."""
_PREFIX = "ratchet-check-"


@contextmanager
def scratch_folder(size: int) -> Iterator[Path]:
    """A private folder that is removed afterwards.

    It is in memory if there is room for four times the copy, programs may be run from there, and
    TMPDIR does not say otherwise. What a killed check left there is removed first.

    Args:
        size: Bytes of what will be written.
    """
    folder = MEMORY if _fits(size) else None
    if folder is not None:
        _remove_left(folder)
    with tempfile.TemporaryDirectory(
        prefix=f"{_PREFIX}{os.getpid()}-", dir=folder, ignore_cleanup_errors=True
    ) as made:
        yield Path(made)


def _fits(size: int) -> bool:
    if size > LARGEST or "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK | os.X_OK):
        return False
    try:
        state = os.statvfs(MEMORY)
    except OSError:
        return False
    free = min(state.f_bavail * state.f_frsize, _free_memory())
    return not state.f_flag & os.ST_NOEXEC and free > 4 * size


def _free_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    found = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return int(found[0][1]) * 1024 if found else 0


def _remove_left(folder: Path) -> None:
    for one in folder.glob(f"{_PREFIX}*"):
        pid = one.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists() and one.stat().st_uid == os.getuid():
            shutil.rmtree(one, ignore_errors=True)
