"""The branch of a pull request: the release's commit, then merges of the base and the evidence."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ratchet.ship.carry import carried
from ratchet.ship.check import TestCommand, run_tests
from ratchet.ship.commit import changes_of, store_release_commit
from ratchet.ship.repository import Blob, Repository
from ratchet.types import Release, ShipError

EVIDENCE_FOLDER = ".ratchet-evidence"
"""Folder of evidence files in the user's repository."""

_TRAILER = "Ratchet-Release"
_MOST_COMMITS = 200


def evidence_file(experiment_id: str, stage: str = "") -> str:
    """Path in the repository of an experiment's evidence, or of that of a later stage."""
    of = f"-{stage}" if stage else ""
    return f"{EVIDENCE_FOLDER}/{experiment_id[:12]}{of}.json"


@dataclass(frozen=True)
class RequestBranch:
    """Makes the commits of a release's branch, without moving any reference.

    Nothing is rewritten: each commit follows what was pushed before, so a push needs no force.
    """

    repository: Repository
    release: Release

    def is_own(self, tip: str) -> bool:
        """Whether a branch consists only of commits that Ratchet made."""
        commit = tip
        for _ in range(_MOST_COMMITS):
            if commit == self.release.commit:
                return True
            parents = self.repository.parents(commit)
            message = self.repository.message(commit).splitlines()
            if f"{_TRAILER}: {self.release.id}" not in message or not parents:
                return False
            if len(parents) == 1:
                changed = self.repository.changed_paths(parents[0], commit)
                if not all(map(_is_evidence, changed)):
                    return False
            else:
                try:
                    merged = self._merge(parents[0], parents[1])
                except ShipError:
                    return False
                if self.repository.changed_paths(merged, commit):
                    return False
            commit = parents[0]
        return False

    def conflicts(self, tip: str, base: str) -> bool:
        """Whether the release's files conflict with a base."""
        ours = self.repository.merge_base(tip, base)
        for path in self.repository.changed_paths(self.release.base, self.release.commit):
            blobs = [self.repository.content(commit, path) for commit in (tip, ours, base)]
            if blobs[1] == blobs[2]:
                continue
            if blobs[2] is None or not _merges(*(blob or b"" for blob in blobs)):
                return True
        return False

    def with_base(self, tip: str, base: str, tests: TestCommand) -> str:
        """Merge a base into the branch, with the release's change applied to it again.

        Raises:
            ShipError: The source of the resource is another one there, or the tests fail with the
                change and pass without it.
        """
        commit = self._merge(tip, base)
        report = run_tests(self.repository, commit, base, tests)
        if report.outcome not in ("passed", "not_configured"):
            raise ShipError(
                f"The pull request's base has moved on. On its new commit {base[:12]}:"
                f" {report.sentence()} Nothing was pushed.\n{report.tail()}",
                hint=report.hint() or "Measure again with `ratchet improve`.",
            )
        return commit

    def with_evidence(self, tip: str, files: Mapping[str, Path]) -> str:
        """Add evidence files to the branch, unless they are there.

        Args:
            tip: Full hash of the branch's present tip.
            files: The files, by their paths in the repository.

        Raises:
            ShipError: An evidence file is gone.
        """
        blobs: dict[str, Blob] = {}
        for path, file in files.items():
            try:
                data = file.read_bytes()
            except OSError as error:
                raise ShipError(
                    f"The evidence file {file} cannot be read: {error.strerror}.",
                    hint="To leave it out: evidence = false under [ship].",
                ) from None
            if self.repository.content(tip, path) != data:
                blobs[path] = Blob("100644", self.repository.store_blob(data, None))
        if not blobs:
            return tip
        message = f"Evidence of experiment {self.release.experiment_id}\n\n{self._trailer}\n"
        return store_release_commit(self.repository, tip, blobs, message, self.release.created_at)

    @property
    def _trailer(self) -> str:
        return f"{_TRAILER}: {self.release.id}"

    def _merge(self, tip: str, base: str) -> str:
        changes = changes_of(self.repository, self.release.base, self.release.commit)
        blobs = carried(self.repository, base, self.release, changes, "forward")
        for path in self.repository.changed_paths(self.release.commit, tip):
            evidence_blob = self.repository.blob(tip, path) if _is_evidence(path) else None
            if evidence_blob is not None:
                blobs[path] = evidence_blob
        # The base's own time makes the same merge the same commit.
        return store_release_commit(
            self.repository,
            base,
            blobs,
            f"Merge {base[:12]}\n\nThe change was applied again on the moved base.\n\n"
            f"{self._trailer}\n",
            self.repository.committed_at(base),
            parents=(tip, base),
        )


def _is_evidence(path: str) -> bool:
    return path.startswith(f"{EVIDENCE_FOLDER}/")


def _merges(ours: bytes, ancestor: bytes, theirs: bytes) -> bool:
    """Whether git merges three versions of a file without a conflict."""
    with tempfile.TemporaryDirectory(prefix="ratchet-merge-") as folder:
        paths = [Path(folder) / name for name in ("ours", "ancestor", "theirs")]
        for path, data in zip(paths, (ours, ancestor, theirs), strict=True):
            path.write_bytes(data)
        completed = subprocess.run(
            ["git", "merge-file", "--stdout", "--quiet", *map(str, paths)],
            capture_output=True,
            timeout=60,
            check=False,
        )
    return completed.returncode == 0
