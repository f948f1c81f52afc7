"""What the recorded run of `ratchet init` left behind."""

from __future__ import annotations

import functools
import os
from pathlib import Path, PurePosixPath
from tempfile import gettempdir

from ratchet.source.files import SKIPPED
from ratchet.wire.applying import RunTrace, still_there
from ratchet.wire.recording.recording import Recording


def created_by(root: Path, recording: Recording) -> tuple[str, ...]:
    """The files that the recorded run created in the project, and folders with nothing else."""
    files = {
        PurePosixPath(write.path)
        for write in recording.writes
        if write.place == "project" and write.how == "created" and (root / write.path).is_file()
    }

    @functools.cache
    def is_new(folder: PurePosixPath) -> bool:
        inside = (path for path in (root / folder).rglob("*") if not path.is_dir())
        return all(PurePosixPath(path.relative_to(root)) in files for path in inside)

    outermost: dict[str, None] = {}
    for file in sorted(files):
        folders = [folder for folder in reversed(file.parents) if folder.parts]
        if not any(folder.as_posix() in outermost for folder in folders):
            outermost[next(filter(is_new, folders), file).as_posix()] = None
    return tuple(outermost)


def traces_of(root: Path, recording: Recording) -> tuple[RunTrace, ...]:
    """What the recorded run left in the project and git does not have, except what it built."""
    traces = [RunTrace("created", path) for path in created_by(root, recording)]
    traces += [
        RunTrace(write.how, write.path)
        for write in recording.writes
        if write.place == "project" and write.how != "created" and not _is_built(write.path)
    ]
    return still_there(root, traces)


def _is_built(path: str) -> bool:
    """Whether a file is in a folder of packages or of build output, which can be made again."""
    return not SKIPPED.isdisjoint(PurePosixPath(path).parts[:-1])


def perhaps_caches(recording: Recording) -> tuple[str, ...]:
    """The folders in home and temporary folders that the recorded run left something in."""
    folders = (
        path if os.path.isdir(os.path.expanduser(path)) else os.path.dirname(path)
        for path in written_outside(recording)
    )
    return tuple(dict.fromkeys(path for path in folders if path not in ("~", gettempdir())))


def written_outside(recording: Recording) -> tuple[str, ...]:
    """What the recorded run left in home and temporary folders, as innermost files or folders."""
    groups: dict[str, list[str]] = {}
    for written in recording.writes:
        depth = {"home": 2, "temp": 3}.get(written.place)  # of a name in it: ~/NAME, /tmp/NAME
        if depth and os.path.exists(os.path.expanduser(written.path)):
            first = "/".join(PurePosixPath(written.path).parts[:depth])
            groups.setdefault(first, []).append(written.path)
    return tuple(os.path.commonpath(paths) for paths in groups.values())
