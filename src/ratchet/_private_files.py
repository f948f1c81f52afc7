"""Files and folders that their owner alone may read, whatever the umask is."""

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
    """Make a folder with mode 0700, and those above it that are missing; leave one that is there.

    Raises:
        OSError: It cannot be made, or is no folder.
    """
    if not folder.parent.exists():
        make_folder(folder.parent)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise


def make_file(path: Path) -> None:
    """Make an empty file with mode 0600; leave one that is there.

    Raises:
        OSError: It cannot be made.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def close_folder(folder: Path) -> None:
    """Take from others what they may do with a folder that others may enter, and all in it.

    It is said once: whoever could read it until now may have done so.
    """
    if not _is_open(folder):
        return
    # From outside in: nobody enters any more while the rest is done.
    failed = not _close(folder)
    for inside, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(inside, name)
            if not path.is_symlink():
                _close(path)
    _say(folder, failed)


def close_files(paths: Iterable[Path]) -> None:
    """Take from others what they may do with files that are there. Said once, by the first."""
    opened = [path for path in paths if _is_open(path)]
    failed = [path for path in opened if not _close(path)]
    if opened:
        _say(opened[0], bool(failed))


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


def _say(path: Path, failed: bool) -> None:
    if failed:
        _log.warning(
            "%s holds conversations and a signing key, and other users of this machine may read"
            " it. It belongs to somebody else, who can close it: chmod -R go= %s",
            path,
            path,
        )
        return
    _log.warning(
        "%s holds conversations and a signing key, and other users of this machine could read it"
        " until now. It is its owner's alone from now on.",
        path,
    )
