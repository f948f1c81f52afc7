"""Puts back the tracked files that the recorded run of `ratchet init` changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ratchet.ship.repository import Repository
from ratchet.types import ShipError

MESSAGE = "Changed by the recorded run of ratchet init"


def stash_entry(root: Path) -> str:
    """The newest entry of git's stash with changes of a recorded run; empty if there is none."""
    try:
        entries = Repository.open(root).output("stash", "list").decode(errors="replace")
    except ShipError:
        return ""
    return next((e.partition(":")[0] for e in entries.splitlines() if MESSAGE in e), "")


class CommittedFiles:
    """The tracked files of a project that matched the last commit before a run.

    Args:
        root: The project's folder; it need not be in a repository.
    """

    def __init__(self, root: Path) -> None:
        self._repository: Repository | None = None
        try:
            repository = Repository.open(root)
            self._changed_before = {path for _, path in repository.changes()}
        except ShipError:
            return
        self._repository = repository

    def stash(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Put back those that the run changed, so that rollouts begin as it began.

        Their changes are kept in git's stash.

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
