"""Temporary checkouts of a commit, and removal of those left behind by killed processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ratchet.ship.repository import Repository

_PREFIX = "ratchet-ship-"


@contextlib.contextmanager
def checkout(repository: Repository, commit: str) -> Iterator[Path]:
    """A temporary work tree of a commit, removed at exit.

    Raises:
        ShipError: git cannot check the commit out.
    """
    sweep(repository)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    # The lock is held while this process lives: a folder with a free lock is abandoned. The folder
    # gets its name after the lock is taken, so that no process sees it unlocked.
    lock = os.open(folder / "lock.new", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(folder / "lock.new", folder / "lock")
        repository.add_worktree(folder / "tree", commit)
        yield folder / "tree"
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)
        repository.prune_worktrees()


def sweep(repository: Repository) -> None:
    """Remove the temporary work trees of killed processes."""
    mine = [tree.parent for tree, _ in repository.worktrees()]
    # One killed before git registered it is not in git's list.
    mine += [lock.parent for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/lock")]
    for scratch in mine:
        if scratch.name.startswith(_PREFIX) and not _is_held(scratch / "lock"):
            shutil.rmtree(scratch, ignore_errors=True)
    repository.prune_worktrees()


def _is_held(lock: Path) -> bool:
    try:
        handle = os.open(lock, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # another user's: not ours to remove
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
