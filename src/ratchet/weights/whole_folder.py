"""Folders that are written completely or not at all, even if writing is interrupted."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ratchet._private_files import make_folder
from ratchet.types import StoreError

PARTIAL = ".partial"
"""Suffix of a folder that is being written."""


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Write a folder under another name, synchronise it with the disk, and rename it.

    One that stands there already is replaced.

    Args:
        folder: The folder.
        write: Fills the empty folder that it is given.

    Raises:
        StoreError: It cannot be written, for instance because the disk is full. What was there
            before is unchanged.
    """
    partial = folder.with_name(folder.name + PARTIAL)
    try:
        make_folder(folder.parent)
        shutil.rmtree(partial, ignore_errors=True)
        make_folder(partial)
        write(partial)
        for path in [*partial.rglob("*"), partial]:
            _synchronise(path)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
        _synchronise(folder.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise StoreError(
            f"{folder} cannot be written: {error.strerror or error}. Anything saved earlier is "
            "unchanged.",
            hint="Free space on that disk, then run the same command again to continue."
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "Make the folder writable, and run the same command again.",
        ) from None


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
