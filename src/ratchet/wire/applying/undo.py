"""Undoes a wiring: reverts its commit, or restores the stored originals.

A file that was edited is never deleted, and the branch stays the one that undo was called on; only
from a branch that holds nothing but the wiring, edits of what that created and new files does it go
back to where that was begun. The branch is deleted unless there are such edits.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from ratchet.ship import Repository
from ratchet.ship.repository import Blob
from ratchet.types import InputError, ShipError
from ratchet.wire.applying.commit import origin_key
from ratchet.wire.applying.merging import EditedSince, taken_out
from ratchet.wire.applying.plan import read, why_unreadable
from ratchet.wire.applying.record import (
    PATTERN,
    UNDONE,
    Record,
    RunTrace,
    is_inside,
    record_in,
    taken_back_by,
)
from ratchet.wire.applying.stored import (
    StoredFile,
    forget,
    is_stored,
    remove_file,
    stored,
    write_file,
)

UNDO_MESSAGE = "Undo the wiring for Ratchet"


class KeptFile(msgspec.Struct, frozen=True):
    """A file that undo did not change."""

    path: str
    why: str
    """As a clause."""


class Undone(msgspec.Struct, frozen=True):
    """The changes that undo made, or would make."""

    restored: tuple[str, ...]
    """Files put back as they were before the wiring, or with only its changes taken out."""
    removed: tuple[str, ...]
    """Files that the wiring had created."""
    kept: tuple[KeptFile, ...]
    branch: str = ""
    """The branch that is checked out; empty if none is."""
    commit: str = ""
    """Full hash of the reverting commit; empty if there is none."""
    deleted_branch: str = ""
    """A branch that held only the wiring."""
    edits_on: str = ""
    """A branch that keeps the wiring with the owner's edits of its files, no longer checked out."""
    began_at: str = ""
    """The branch without the wiring at which the one that is checked out began; empty for none."""
    traces: tuple[RunTrace, ...] = ()
    """What the recorded run had done in the project, with absolute paths; undo leaves it."""

    def with_changes(
        self, changes: Mapping[str, bytes | None], edited: Sequence[KeptFile]
    ) -> Undone:
        """New contents of these files as well; None for a file to delete."""
        restored = (path for path, data in changes.items() if data is not None)
        removed = (path for path, data in changes.items() if data is None)
        return msgspec.structs.replace(
            self,
            restored=(*self.restored, *restored),
            removed=(*self.removed, *removed),
            kept=(*self.kept, *edited),
        )


def wired(root: Path) -> Record | None:
    """The wiring of a folder that has not been undone yet; None if there is none.

    Args:
        root: The folder that was wired, or one above or below it.

    Raises:
        InputError: There are several, and none is of this very folder.
    """
    root = root.resolve()
    try:
        repository = _repository(root)
    except ShipError:
        return None
    record = _active(repository, root) if repository else None
    place = _stored_at(root)
    in_place = tuple(file.path for file in stored(place).files) if place else ()
    if record is None:
        return Record(".", (), "", in_place) if in_place else None
    return msgspec.structs.replace(record, stored=in_place)


def undo(root: Path, *, dry_run: bool = False) -> Undone:
    """Undo the wiring of a folder.

    Args:
        root: The folder that was wired, or one above or below it.
        dry_run: Say what would be done; do nothing.

    Raises:
        InputError: Nothing was wired here, or several folders were.
        ShipError: A merge or the like is under way, or git does not have the originals.
    """
    root = root.resolve()
    repository = _repository(root)
    record = _active(repository, root) if repository else None
    place = _stored_at(root)
    branch = (repository.head_branch() or "") if repository else ""
    if repository is not None:
        repository.check_idle()
    if record is None and place is None:
        unmerged = _unmerged(repository) if repository else ""
        if repository is None or not unmerged:
            raise InputError(f"{root} is not wired.", hint="Wire it with: ratchet init -- COMMAND")
        if not dry_run:
            _delete(repository, unmerged)
        return Undone((), (), (), branch, deleted_branch=unmerged)
    origin = _setting(repository, origin_key(branch)) if repository and branch else ""
    began_at = origin.removeprefix("refs/heads/") if origin.startswith("refs/heads/") else ""
    undone = Undone((), (), (), branch, began_at=began_at)
    traces = _traces(repository, record, place)
    if place is not None:
        undone = _from_store(place, undone, dry_run)
    if repository is not None and record is not None:
        undone = _from_commit(repository, record, undone, dry_run)
    return msgspec.structs.replace(undone, traces=traces)


def still_there(root: Path, traces: Iterable[RunTrace]) -> tuple[RunTrace, ...]:
    """The recorded run's changes in a folder that nobody has committed or undone since.

    Args:
        root: The folder that was wired.
        traces: What it did.
    """
    inside = [trace for trace in traces if is_inside(trace.path)]
    tracked = tracked_among(root, [trace.path for trace in inside])
    return tuple(
        trace
        for trace in inside
        if tracked.get(trace.path, (root / trace.path).exists() != (trace.how == "deleted"))
        and not (trace.path in tracked and trace.how == "created")
    )


def tracked_among(root: Path, paths: Sequence[str]) -> dict[str, bool]:
    """The paths that git has, and whether each differs from the last commit."""
    repository = _repository(root) if paths else None
    return repository.tracked({path: root.resolve() / path for path in paths}) if repository else {}


def _traces(
    repository: Repository | None, record: Record | None, place: Path | None
) -> tuple[RunTrace, ...]:
    """Changes by the recorded run that are still there, with absolute paths."""
    by_folder = [(place, stored(place).traces)] if place else []
    if repository is not None and record is not None:
        by_folder.append((repository.root / record.folder, record.traces))
    return tuple(
        RunTrace(trace.how, str(folder / trace.path))
        for folder, traces in by_folder
        for trace in still_there(folder, traces)
    )


def _from_store(root: Path, undone: Undone, dry_run: bool) -> Undone:
    """Restore the stored originals of a folder."""
    files = stored(root).files
    changes, kept_files = _changes(root, files)
    if not dry_run:
        _write(root, files, changes)
        edited = {file.path for file in kept_files}
        forget(root, [file for file in files if file.before and file.path in edited])
    return undone.with_changes(changes, kept_files)


def _from_commit(repository: Repository, record: Record, undone: Undone, dry_run: bool) -> Undone:
    """Return to the commit where the branch began if it holds only the wiring; else revert."""
    origin, is_edited = _origin(repository, record), repository.head() != record.commit
    if not origin or not (dry_run or _go_back(repository, origin, delete=not is_edited)):
        return _revert(repository, record, undone, dry_run)
    changes = {file.path: b"" if file.before else None for file in record.files}
    back = origin.removeprefix("refs/heads/") if origin.startswith("refs/") else ""
    left = {"edits_on" if is_edited else "deleted_branch": undone.branch}
    return msgspec.structs.replace(undone, branch=back, **left).with_changes(changes, ())


def _revert(repository: Repository, record: Record, undone: Undone, dry_run: bool) -> Undone:
    """Revert on the branch that is checked out: its files, and the work tree's files with their
    edits."""
    root = repository.root / record.folder
    prefix = "" if record.folder == "." else f"{record.folder}/"
    head = repository.head()
    steps: list[StoredFile] = []
    blobs: dict[str, Blob | None] = {}
    kept_files: list[KeptFile] = []
    for file in record.files:
        path = prefix + file.path
        blob, before = repository.blob(head, path), _bytes(repository, file.before)
        current = repository.content(head, path)
        try:
            read(root, file.path)
            new = taken_out(current, before, _bytes(repository, file.after) or b"")
            _check_edit(file.path, current, new, blob is not None and blob.mode == "100755")
        except (EditedSince, InputError) as error:
            kept_files.append(KeptFile(file.path, str(error).rstrip(".")))
            continue
        if blob is not None and new != current:
            new_hash = None if new is None else repository.store_blob(new, None, write=not dry_run)
            blobs[path] = Blob(blob.mode, new_hash) if new_hash else None
        old, wrote = (_bytes(repository, name, path) for name in (file.before, file.after))
        folders = tuple(map(str, PurePosixPath(file.path).parents))[:-1] if old is None else ()
        steps.append(StoredFile(file.path, old, wrote or b"", folders))
    changes, edited = _changes(root, steps)
    for stays in edited:
        blobs.pop(prefix + stays.path, None)
    undone = undone.with_changes(changes, [*kept_files, *edited])
    if dry_run:
        return undone
    _write(root, steps, changes)
    commit = _commit(repository, head, blobs, record.commit) if blobs else ""
    return msgspec.structs.replace(undone, commit=commit)


def _commit(repository: Repository, head: str, blobs: dict[str, Blob | None], of: str) -> str:
    """Commit the revert to the branch that is checked out, and update the index for these files."""
    text = f"{UNDO_MESSAGE}\n\nThis reverts commit {of}.\n\n{UNDONE}: {of}\n"
    commit = repository.store_commit(head, blobs, text, time.time())
    repository.text("update-ref", "-m", "ratchet init --undo", "HEAD", commit, head)
    repository.text("reset", "--quiet", "HEAD", "--", *blobs)
    return commit


def _changes(
    root: Path, steps: Sequence[StoredFile]
) -> tuple[dict[str, bytes | None], list[KeptFile]]:
    """New bytes of each file to change in the work tree, and the files to leave alone."""
    changes: dict[str, bytes | None] = {}
    kept_files = []
    for step in steps:
        try:
            current = read(root, step.path)
            new = taken_out(current, step.before, step.after)
            executable = current is not None and bool((root / step.path).stat().st_mode & 0o111)
            _check_edit(step.path, current, new, executable)
        except (EditedSince, InputError) as error:
            kept_files.append(KeptFile(step.path, str(error).rstrip(".")))
            continue
        if new != current:
            changes[step.path] = new
    return changes, kept_files


def _check_edit(path: str, current: bytes | None, new: bytes | None, executable: bool) -> None:
    """Raise EditedSince if a file must be left alone although its new bytes are known."""
    if current is not None and new is None and executable:
        raise EditedSince("its mode has been changed since")  # nothing is created executable
    if current and new and why_unreadable(path, new) and not why_unreadable(path, current):
        raise EditedSince("without the wiring's changes, it would not parse")


def _write(root: Path, steps: Sequence[StoredFile], changes: Mapping[str, bytes | None]) -> None:
    folders = {step.path: step.folders for step in steps}
    for path, data in changes.items():
        if data is None:
            remove_file(root, path, folders[path])
        else:
            write_file(root / path, data)


def _bytes(repository: Repository, blob: str, path: str = "") -> bytes | None:
    """Bytes of a blob; with a path, as they are in the work tree. None without a blob."""
    if not blob:
        return None
    form = ["--filters", f"--path={path}"] if path else ["blob"]
    try:
        return repository.output("cat-file", *form, blob)
    except ShipError:
        raise ShipError(
            f"git no longer has {path or 'a file'} as it was before the wiring.",
            hint="In a shallow clone: git fetch --unshallow",
        ) from None


def _repository(root: Path) -> Repository | None:
    """The repository of a folder; None if it is not in one."""
    if not any((folder / ".git").exists() for folder in (root, *root.parents)):
        return None
    try:
        return Repository.open(root)
    except ShipError:
        if _stored_at(root) is None:
            raise
        return None  # a submodule, or a repository without a commit: what is stored is enough


def _active(repository: Repository, root: Path) -> Record | None:
    """The newest wiring in the history of HEAD that has not been undone since."""
    query = ("log", "--extended-regexp", f"--grep={PATTERN}", "--format=%H%n%B%x00", "HEAD")
    taken_back: set[str] = set()
    records: dict[str, Record] = {}
    for entry in repository.output(*query).decode(errors="replace").split("\0"):
        commit, _, message = entry.strip().partition("\n")
        if any(commit.startswith(short) for short in taken_back):
            continue
        taken_back.update(taken_back_by(message))
        record = record_in(message, commit)
        if record is not None and _is_there(repository, record):
            records.setdefault(record.folder, record)
    near = {
        folder: record
        for folder, record in records.items()
        if (place := (repository.root / folder).resolve()).is_relative_to(root)
        or root.is_relative_to(place)
    }
    own = str(PurePosixPath(repository.prefix or "."))
    if own in near:
        return near[own]
    if len(near) > 1:
        raise InputError(
            f"{len(near)} folders are wired: {', '.join(sorted(near))}.", hint="Name one of them."
        )
    return next(iter(near.values()), None)


def _is_there(repository: Repository, record: Record) -> bool:
    """Whether any part of a wiring is left. After a rebase, no commit shows that it was undone."""
    prefix = "" if record.folder == "." else f"{record.folder}/"
    for file in record.files:
        blob = repository.blob("HEAD", prefix + file.path)
        if blob is not None and blob.hash != file.before:
            return True
    return False


def _origin(repository: Repository, record: Record) -> str:
    """Where the current branch began, if all that it holds are the wiring, edits of the files that
    this created, and other new files."""
    branch = repository.head_branch()
    origin = _setting(repository, origin_key(branch)) if branch else ""
    prefix = "" if record.folder == "." else f"{record.folder}/"
    paths = [prefix + file.path for file in record.files]
    if not origin or _setting(repository, f"branch.{branch}.remote"):
        return ""
    head = repository.head()
    created = {prefix + file.path for file in record.files if not file.before}
    edited = {*repository.changed_paths(record.commit, head)} - created
    if (
        not repository.is_ancestor(record.commit, head)
        or any(repository.blob(record.commit, path) for path in edited)
        or any(repository.changes(paths))
    ):
        return ""
    begun = repository.commit_of(origin)
    parents = repository.parents(record.commit)
    return origin if begun and parents and repository.is_ancestor(parents[0], begun) else ""


def _go_back(repository: Repository, origin: str, *, delete: bool) -> bool:
    """Check out the commit where a branch began, and delete the branch; False if git refuses."""
    branch, name = repository.head_branch() or "", origin.removeprefix("refs/heads/")
    if repository.switch(name, detach=name == origin):
        return False
    if delete:
        _delete(repository, branch)
    return True


def _unmerged(repository: Repository) -> str:
    """An unmerged branch with a wiring that began at the current branch."""
    current = repository.head_branch()
    head_ref = f"refs/heads/{current}" if current else repository.head()
    pattern = r"^branch\..*\.ratchet-origin$"
    listed = repository.output("config", "--get-regexp", pattern, ok=(0, 1)).decode()
    for line in listed.splitlines():
        key, _, origin = line.partition(" ")
        branch = key.removeprefix("branch.").removesuffix(".ratchet-origin")
        tip = repository.commit_of(f"refs/heads/{branch}")
        if origin == head_ref and tip and record_in(repository.message(tip), tip):
            return branch
    return ""


def _delete(repository: Repository, branch: str) -> None:
    if tip := repository.commit_of(f"refs/heads/{branch}"):
        repository.delete_ref(f"refs/heads/{branch}", tip)
    repository.output("config", "--remove-section", f"branch.{branch}", ok=(0, 128))


def _setting(repository: Repository, key: str) -> str:
    return repository.output("config", "--get", key, ok=(0, 1)).decode().strip()


def _stored_at(root: Path) -> Path | None:
    """The nearest folder, from this one upwards, whose files were written in place."""
    return next((folder for folder in (root, *root.parents) if is_stored(folder)), None)
