"""The files that a wiring wrote, recorded at the end of its commit message instead of in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import PurePosixPath

import msgspec

from ratchet.wire.recording.recording import Change

_FOLDER = "Ratchet-Wired"
_FILE = "Ratchet-Wrote"
_TRACE = "Ratchet-Recorded"
UNDONE = "Ratchet-Unwired"
_NONE = "-"
_LINE = re.compile(rf"^{_FILE}: ([0-9a-f]{{40,64}}|-) ([0-9a-f]{{40,64}}) (\".*\")$", re.M)
_TRACES = re.compile(rf"^{_TRACE}: (created|changed|deleted) (\".*\")$", re.M)
_WIRED = re.compile(rf"^{_FOLDER}: (\".*\")$", re.M)
_TAKEN_BACK = re.compile(rf"^(?:{UNDONE}: |This reverts commit )([0-9a-f]{{7,64}})", re.M)
PATTERN = rf"^({_FOLDER}: |{UNDONE}: |This reverts commit )"
"""Lines in commit messages by which git finds the commits."""


class WiredFile(msgspec.Struct, frozen=True):
    """A file that a wiring wrote."""

    path: str
    """Relative to the folder that was wired, with forward slashes."""
    before: str
    """Hash of git's blob before; empty if the file was created."""
    after: str


class RunTrace(msgspec.Struct, frozen=True):
    """A change that the recorded run itself made in the project; undo leaves it."""

    how: Change
    path: str
    """A file, or a folder of created files, relative to the folder that was wired."""


class Record(msgspec.Struct, frozen=True):
    """The files that a wiring wrote, and how."""

    folder: str
    """The folder that was wired, relative to the repository; `.` for itself."""
    files: tuple[WiredFile, ...]
    """The files of the commit."""
    commit: str
    """Full hash; empty if files were written without git."""
    stored: tuple[str, ...] = ()
    """Files that are not in a commit; their originals are stored."""
    traces: tuple[RunTrace, ...] = ()


def message_of(
    message: str, folder: str, files: Iterable[WiredFile], traces: Iterable[RunTrace]
) -> str:
    """A commit message with the record at its end."""
    lines = [f"{_FOLDER}: {json.dumps(folder)}"]
    lines += [
        f"{_FILE}: {file.before or _NONE} {file.after} {json.dumps(file.path)}" for file in files
    ]
    lines += [f"{_TRACE}: {trace.how} {json.dumps(trace.path)}" for trace in traces]
    return f"{message.strip()}\n\n" + "\n".join(lines) + "\n"


def record_in(message: str, commit: str) -> Record | None:
    """The record in a commit message; None if it has none."""
    wired = _WIRED.search(message)
    if wired is None:
        return None
    try:
        files = [
            WiredFile(str(json.loads(path)), "" if before == _NONE else before, after)
            for before, after, path in _LINE.findall(message)
        ]
        traces = tuple(
            msgspec.convert({"how": how, "path": json.loads(path)}, RunTrace)
            for how, path in _TRACES.findall(message)
        )
        record = Record(str(json.loads(wired[1])), tuple(files), commit, traces=traces)
    except ValueError:
        return None
    # The message may be a stranger's: nothing in it leads out of the repository.
    paths = [record.folder, *(file.path for file in files), *(trace.path for trace in traces)]
    return record if all(map(is_inside, paths)) else None


def is_inside(path: str) -> bool:
    """Whether a path stays inside its folder and outside git's own."""
    parts = PurePosixPath(path).parts
    return not (path.startswith("/") or "\0" in path or {"..", ".git"} & set(parts))


def taken_back_by(message: str) -> list[str]:
    """Hashes of the commits that a message says it reverts."""
    return _TAKEN_BACK.findall(message)
