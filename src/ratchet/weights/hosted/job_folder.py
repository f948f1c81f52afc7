"""The hosted jobs of a project: one file for each, replaced atomically."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ratchet._private_files import make_folder
from ratchet.types import InputError, NotFound
from ratchet.weights.hosted.job import HostedJob

_decode = msgspec.json.Decoder(HostedJob).decode


class JobFolder:
    """Keeps hosted jobs in a folder.

    Args:
        folder: The folder; it is created with the first job.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, job: HostedJob) -> None:
        """Store a job durably, replacing its earlier state."""
        make_folder(self._folder)
        path = self._folder / f"{job.id}.json"
        unfinished = path.with_suffix(f".{os.getpid()}")
        with unfinished.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(job)))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)

    def get(self, id: str) -> HostedJob | None:
        """The job with an id; None if there is none."""
        path = self._folder / f"{id}.json"
        return self._read(path) if path.is_file() else None

    def find(self, prefix: str) -> HostedJob:
        """The job whose id, or id at the service, begins with this.

        Raises:
            NotFound: There is none.
            InputError: There are several.
        """
        matches = [
            job
            for job in self.list()
            if job.id.startswith(prefix) or job.remote_id.startswith(prefix)
        ]
        if not matches:
            raise NotFound(
                f"There is no hosted job {prefix!r}.", hint="List them: ratchet train jobs."
            )
        if len(matches) > 1:
            raise InputError(
                f"{prefix!r} is the start of the ids of {len(matches)} jobs; use a longer prefix."
            )
        return matches[0]

    def list(self) -> list[HostedJob]:
        """All jobs, newest first."""
        jobs = [self._read(path) for path in self._folder.glob("*.json")]
        return sorted(jobs, key=lambda job: (-job.created_at, job.id))

    def _read(self, path: Path) -> HostedJob:
        try:
            return _decode(path.read_bytes())
        except msgspec.DecodeError:
            raise InputError(
                f"{path} does not hold the state of a hosted job.",
                hint="Restore the file, or delete it.",
            ) from None
