"""Takes a wiring back: exactly what was made, whatever the user edited around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from ratchet.types import InputError
from ratchet.wire.facts import Place
from ratchet.wire.former.commit import commit_contents, write_contents
from ratchet.wire.former.plan import read, unreadable
from ratchet.wire.former.record import (
    NAME,
    FormerRecord,
    FormerRecordedFile,
    decoded,
    encoded,
    read_record,
    record_text,
)
from ratchet.wire.former.taken_back import TakenBack, take_back
from ratchet.wire.former.tokens import fingerprint
from ratchet.wire.looking.files import RepositoryFiles

BRANCH = "ratchet/undo-init"


class KeptPlace(msgspec.Struct, frozen=True):
    """Something that the wiring made and undo leaves, because the user changed or uses it."""

    place: Place
    text: str
    """What stands there, on one line; empty for a whole file."""
    why: str


class UndoReport(msgspec.Struct, frozen=True):
    """What undo did."""

    changed: tuple[str, ...]
    """Files without our pieces now."""
    removed: tuple[str, ...]
    """Files that were created and are removed."""
    kept: tuple[KeptPlace, ...]
    branch: str = ""
    """Of the commit; empty if files were written, or nothing was there to do."""
    commit: str = ""
    switched: bool = False
    why_not: str = ""
    """Why the work tree is not on the branch."""


class FormerUndone(msgspec.Struct, frozen=True):
    """A repository after undo, in memory."""

    contents: dict[str, bytes | None]
    """New bytes by path; None for a file that is removed. Unchanged files are not in it."""
    kept: tuple[KeptPlace, ...]
    files: dict[str, TakenBack]
    """By path, those that existed before the wiring."""
    edited: tuple[str, ...]
    """Created files that the user edited."""
    record: FormerRecord
    """What is left of it."""
    moved: dict[str, str]
    """New path of files that were renamed, by the recorded one."""


def undo(
    root: Path,
    *,
    branch: str = BRANCH,
    switch: bool = True,
    force: bool = False,
    write: bool = False,
) -> UndoReport:
    """Take the wiring of a repository back.

    Args:
        root: The repository, or the folder of a project in it.
        branch: The new branch for the commit.
        switch: Check the branch out, if no tracked file is changed.
        force: Remove created files also where the user edited them.
        write: Write the files instead of a commit.

    Raises:
        InputError: There is no record of a wiring, or several and none in this folder.
        ShipError: As for `commit`.
    """
    root, path = find_record(root)
    record = read_record(decoded(_read(root, path)), path)
    undone = undone_of(root, record, force=force)
    made = dict(undone.contents)
    made[path] = encoded(record_text(undone.record)) if undone.record.files else None
    changed = tuple(one for one, data in undone.contents.items() if data is not None)
    removed = tuple(one for one, data in undone.contents.items() if data is None)
    report = UndoReport(changed, removed, undone.kept)
    if not undone.contents and undone.record.files:
        return report
    if write:
        write_contents(root, {**undone.contents, path: made[path]})
        return report
    message = f"Take the wiring of {record.agent} for Ratchet back\n"
    if undone.kept:
        message += "\nKept, because it was changed or is used:\n"
        message += "".join(f"{one.place}: {one.why}\n" for one in undone.kept)
    done = commit_contents(root, made, message, branch, switch=switch)
    return msgspec.structs.replace(
        report,
        branch=done.branch,
        commit=done.commit,
        switched=done.switched,
        why_not=done.why_not,
    )


def undone_of(root: Path, record: FormerRecord, *, force: bool = False) -> FormerUndone:
    """The files of a repository without what a record names."""
    contents: dict[str, bytes | None] = {}
    kept: list[KeptPlace] = []
    files: dict[str, TakenBack] = {}
    edited: list[str] = []
    left: list[FormerRecordedFile] = []
    moved: dict[str, str] = {}
    for recorded in record.files:
        path = recorded.path
        data = read(root, path)
        if data is None and recorded.pieces:
            path = _renamed(root, recorded) or path
            moved |= {recorded.path: path} if path != recorded.path else {}
            data = read(root, path)
        if data is None:
            continue
        text = decoded(data)
        if recorded.created:
            if force or fingerprint(text, path) == recorded.created:
                contents[path] = None
            else:
                edited.append(path)
                kept.append(KeptPlace(Place(path), "", "it was changed; --force removes it"))
                left.append(recorded)
            continue
        after = take_back(text, path, recorded.pieces)
        made = encoded(after.text)
        if after.replaced and unreadable(path, made) and not unreadable(path, data):
            problem = unreadable(path, made)
            kept.append(
                KeptPlace(Place(path), "", f"without our pieces it does not parse: {problem}")
            )
            left.append(recorded)
            continue
        files[path] = after
        if after.replaced:
            contents[path] = made
        kept += [KeptPlace(Place(path, one.line), one.text, one.why) for one in after.kept]
        pieces = tuple(recorded.pieces[one.number] for one in after.kept)
        if pieces:
            left.append(msgspec.structs.replace(recorded, path=path, pieces=pieces))
    rest = msgspec.structs.replace(record, files=tuple(left))
    return FormerUndone(contents, tuple(kept), files, tuple(edited), rest, moved)


def find_record(folder: Path) -> tuple[Path, str]:
    """The repository that was wired, and the path of its record in it.

    Raises:
        InputError: There is none, or there are several below the folder.
    """
    folder = folder.resolve()
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder.")
    found = [folder / NAME] if (folder / NAME).is_file() else []
    if not found:
        found = [folder / path for path in _records(RepositoryFiles(folder))]
    if not found:
        found = [one / NAME for one in folder.parents if (one / NAME).is_file()][:1]
    if not found:
        raise InputError(
            f"{folder} was not wired by ratchet init: there is no {NAME}.",
            hint="See what it is: ratchet init --look",
        )
    if len(found) > 1:
        names = ", ".join(str(one.parent.relative_to(folder)) for one in found)
        raise InputError(
            f"{len(found)} projects were wired: {names}.", hint="Name the folder of one."
        )
    record = read_record(decoded(_read(found[0].parent, NAME)), str(found[0]))
    depth = 0 if record.project == "." else len(Path(record.project).parts)
    root = found[0].parents[depth]
    return root, found[0].relative_to(root).as_posix()


def _records(files: RepositoryFiles) -> Iterator[str]:
    yield from (path for path in files.paths if path.rpartition("/")[2] == NAME)


def _read(root: Path, path: str) -> bytes:
    data = read(root, path)
    if data is None:
        raise InputError(f"{root / path} is not there any more.")
    return data


def _renamed(root: Path, recorded: FormerRecordedFile) -> str:
    """The one file that holds all pieces of a file that is gone; empty if there is none."""
    ending = "." + recorded.path.rpartition(".")[2]
    fitting: list[str] = []
    for path in RepositoryFiles(root).paths:
        if path.endswith(ending) and not (root / path).is_symlink():
            try:
                text = decoded((root / path).read_bytes())
            except OSError:
                continue
            # Most texts hold none of it: only one that may hold all is taken apart.
            if all(_core(one.inserted) in text for one in recorded.pieces):
                fitting.append(path)
    return fitting[0] if len(fitting) == 1 else ""


def _core(inserted: str) -> str:
    """The longest word of a piece."""
    return max(inserted.split(), key=len, default="")


__all__ = ["FormerUndone", "KeptPlace", "UndoReport", "find_record", "undo", "undone_of"]
