"""A project's files as they were before the recorded run of `ratchet init`, put back after it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ratchet.observe.project_paths import STATE_NAME, prepare_state
from ratchet.ship.repository import Repository
from ratchet.types import ShipError
from ratchet.wire.applying.stored import write_file
from ratchet.wire.recording.outside import listing
from ratchet.wire.recording.recording import FileWrite

MESSAGE = "Changed by the recorded run of ratchet init"
WRITTEN = f"{STATE_NAME}/recorded-run"
"""The folder with what the recorded run wrote to files that git does not have."""

_MAX_BYTES = 64_000_000
"""Size of all files that are remembered."""
_OF_SQLITE = ("-wal", "-shm", "-journal")


def stash_entry(root: Path) -> str:
    """The newest entry of git's stash with changes of a recorded run; empty if there is none."""
    try:
        entries = Repository.open(root).output("stash", "list").decode(errors="replace")
    except ShipError:
        return ""
    return next((e.partition(":")[0] for e in entries.splitlines() if MESSAGE in e), "")


class FilesBefore:
    """The files of a project before a run: git has those that it tracks, others are remembered.

    Args:
        root: The project's folder; it need not be in a repository.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._repository: Repository | None = None
        tracked: set[str] = set()
        try:
            repository = Repository.open(root)
            self._changed_before = {path for _, path in repository.changes()}
            tracked = {*repository.tracked_files()}
            self._repository = repository
        except ShipError:
            pass
        self._remembered = _remembered(self._root, tracked)

    def stash(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Put back the tracked files that the run changed, so that rollouts begin as it began.

        Their changes are kept in git's stash. What differed from the last commit before the run
        stays as it is.

        Args:
            paths: Files that the run changed or deleted, relative to the project.

        Returns:
            Those that were put back.
        """
        repository = self._repository
        if repository is None:
            return ()
        written = [repository.prefix + path for path in paths]
        try:
            changed = [
                path
                for state, path in (repository.changes(written) if written else ())
                if state in (" M", " D") and path not in self._changed_before
            ]
            if changed:
                repository.stash(changed, MESSAGE)
        except ShipError:
            return ()
        return tuple(path.removeprefix(repository.prefix) for path in changed)

    def is_as_before(self, path: str) -> bool:
        """Whether a remembered file has the content that it had before the run."""
        before = self._remembered.get(path)
        now = _file_at(self._root / path)
        return before is not None and now is not None and now.content == before.content

    def restore(self, writes: Iterable[FileWrite]) -> tuple[str, ...]:
        """Put back remembered files that the run changed; what it wrote is moved to `WRITTEN`.

        Args:
            writes: What the run wrote.

        Returns:
            The files that were put back, relative to the project.
        """
        paths = {write.path: write.how for write in writes if write.place == "project"}
        restored = tuple(
            path
            for path, how in paths.items()
            if how != "created" and path in self._remembered and not self.is_as_before(path)
        )
        # What SQLite keeps beside a database belongs to the database's newer version.
        beside = {path + suffix for path in restored for suffix in _OF_SQLITE}
        if restored:
            prepare_state(self._root)
        for path in (*restored, *(beside & {p for p, how in paths.items() if how == "created"})):
            file, kept = self._root / path, self._root / WRITTEN / path
            if file.exists():
                write_file(kept, file.read_bytes())
            if path in restored:
                before = self._remembered[path]
                write_file(file, before.content)
                file.chmod(before.mode)
            else:
                file.unlink(missing_ok=True)
        return restored


class _File(NamedTuple):
    """A file's content and mode."""

    content: bytes
    mode: int


def _remembered(root: Path, tracked: set[str]) -> dict[str, _File]:
    """The untracked files of a project that can be remembered; the last changed ones first."""
    files: dict[str, _File] = {}
    total = 0
    state = str(root / STATE_NAME) + os.sep
    listed = listing(root)
    for path in sorted(listed, key=lambda path: listed[path][1], reverse=True):
        relative = Path(path).relative_to(root).as_posix()
        if relative in tracked or path.startswith(state) or os.path.islink(path):
            continue
        if total + listed[path][0] <= _MAX_BYTES and (file := _file_at(Path(path))) is not None:
            files[relative] = file
            total += len(file.content)
    return files


def _file_at(path: Path) -> _File | None:
    """A regular file; None if it cannot be read."""
    try:
        return _File(path.read_bytes(), path.stat().st_mode) if path.is_file() else None
    except OSError:
        return None
