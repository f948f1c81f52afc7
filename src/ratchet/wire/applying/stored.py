"""Writes a plan in place, with the originals stored in `.ratchet/init/`."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from ratchet.observe.project_paths import STATE_NAME, prepare_state
from ratchet.types import InputError
from ratchet.wire.applying.plan import Plan, check_unchanged
from ratchet.wire.applying.record import RunTrace

_FOLDER = "init"
_INDEX = "files.json"


class StoredFile(msgspec.Struct, frozen=True):
    """A file that was written in place."""

    path: str
    """Relative to the folder that was wired, with forward slashes."""
    before: bytes | None
    """The original; None if the file was created."""
    after: bytes
    folders: tuple[str, ...] = ()
    """Folders created for it, innermost first."""


class Stored(msgspec.Struct, frozen=True):
    """The files that were written in place in a folder."""

    files: tuple[StoredFile, ...] = ()
    traces: tuple[RunTrace, ...] = ()
    """What the recorded run did there."""


def write(plan: Plan) -> None:
    """Write a plan in place; `undo` restores the originals.

    They are stored first, so that `undo` also takes back what a kill left half done.

    Raises:
        InputError: There is nothing to write, an earlier plan was written here, or a file changed
            since the plan was made.
    """
    if not plan.files:
        raise InputError("There is nothing to write: the plan is empty.")
    check_unchanged(plan)
    place = _place(plan.root)
    if is_stored(plan.root):
        raise InputError(
            f"Files were already written to {plan.root}.",
            hint="Undo the earlier wiring first: ratchet init --undo",
        )
    prepare_state(plan.root)
    files = tuple(
        StoredFile(file.path, file.before, file.after, tuple(_missing(plan.root, file.path)))
        for file in plan.files
    )
    place.mkdir(exist_ok=True)
    write_file(place / _INDEX, msgspec.json.encode(Stored(files, plan.traces)))
    for file in plan.files:
        write_file(plan.root / file.path, file.after)


def stored(root: Path) -> Stored:
    """What was written in place in a folder, with the originals; empty if nothing was.

    Raises:
        InputError: What is stored cannot be read.
    """
    index = _place(root) / _INDEX
    try:
        if index.is_symlink() or index.parent.is_symlink() or index.parent.parent.is_symlink():
            return Stored()
        return msgspec.json.decode(index.read_bytes(), type=Stored)
    except FileNotFoundError:
        return Stored()
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{index} cannot be read: {error}.") from None


def is_stored(root: Path) -> bool:
    """Whether files were written in place in a folder."""
    return (_place(root) / _INDEX).is_file()


def forget(root: Path, remaining: Sequence[StoredFile] = ()) -> None:
    """Delete the stored files except these, and the state folder if it is then empty."""
    if remaining:
        write_file(_place(root) / _INDEX, msgspec.json.encode(Stored(tuple(remaining))))
        return
    shutil.rmtree(_place(root), ignore_errors=True)
    state = root / STATE_NAME
    if state.is_dir() and {file.name for file in state.iterdir()} <= {".gitignore"}:
        shutil.rmtree(state, ignore_errors=True)


def remove_file(root: Path, path: str, folders: tuple[str, ...]) -> None:
    """Delete a file, and then those of these folders that are empty."""
    (root / path).unlink(missing_ok=True)
    own = set(map(str, PurePosixPath(path).parents)) - {"."}
    for folder in folders:
        if folder not in own:
            return
        try:
            (root / folder).rmdir()
        except OSError:
            return


def write_file(file: Path, data: bytes) -> None:
    """Write a file atomically; its mode is kept."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".ratchet-{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(data)
        if file.exists():
            shutil.copymode(file, temporary)
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _place(root: Path) -> Path:
    return root / STATE_NAME / _FOLDER


def _missing(root: Path, path: str) -> Iterator[str]:
    """Folders in a path that do not exist, innermost first."""
    for folder in PurePosixPath(path).parents:
        if str(folder) != "." and not (root / folder).exists():
            yield str(folder)
