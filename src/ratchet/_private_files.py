"""Files and folders that only their owner can read, whatever the umask."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path

_OTHERS = 0o077
_log = logging.getLogger("ratchet")


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents with mode 0700; leave existing ones unchanged.

    Raises:
        OSError: It cannot be created, or is not a folder.
    """
    if not folder.parent.exists():
        make_folder(folder.parent)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise


def make_file(path: Path) -> None:
    """Create an empty file with mode 0600; leave an existing one unchanged.

    Raises:
        OSError: It cannot be created.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def close_folder(folder: Path) -> None:
    """Remove other users' permissions from an accessible folder and everything in it.

    Logs one warning, since other users may have read it until now.
    """
    if not _is_open(folder):
        return
    # From the outside in, so that no other user can enter while the rest is changed.
    failed = not _close(folder)
    for inside, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(inside, name)
            if not path.is_symlink():
                _close(path)
    _warn(folder, failed)


def close_files(paths: Iterable[Path]) -> None:
    """Remove other users' permissions from existing files; one warning names the first."""
    opened = [path for path in paths if _is_open(path)]
    failed = [path for path in opened if not _close(path)]
    if opened:
        _warn(opened[0], bool(failed))


def _is_open(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & _OTHERS)
    except OSError:
        return False


def _close(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
        if mode & _OTHERS:
            os.chmod(path, stat.S_IMODE(mode) & ~_OTHERS)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _warn(path: Path, failed: bool) -> None:
    if failed:
        _log.warning(
            "%s holds conversations and a signing key, and other users of this machine can read"
            " it. It belongs to another user, who can restrict it: chmod -R go= %s",
            path,
            path,
        )
        return
    _log.warning(
        "%s holds conversations and a signing key, and other users of this machine could read it"
        " until now. From now on only its owner can.",
        path,
    )
