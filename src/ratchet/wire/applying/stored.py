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
from ratchet.wire.applying.record import Trace

_FOLDER = "init"
_INDEX = "files.json"


class StoredFile(msgspec.Struct, frozen=True):
    """A file that was written in place."""

    path: str
    """Relative to the folder that was wired, with forward slashes."""
    before: bytes | None
    """Its original; None if it was created."""
    after: bytes
    folders: tuple[str, ...] = ()
    """Folders that were made for it, innermost first."""


class Stored(msgspec.Struct, frozen=True):
    """What was written in place in a folder."""

    files: tuple[StoredFile, ...] = ()
    traces: tuple[Trace, ...] = ()
    """What the recorded run did there."""


def write(plan: Plan) -> None:
    """Write a plan in place; `undo` brings the originals back.

    They are stored first, so that `undo` also takes back what a kill left half done.

    Raises:
        InputError: There is nothing to write, an earlier plan was written here, or a file changed
            since the plan was made.
    """
    if not plan.files:
        raise InputError("There is nothing to write: the plan is empty.")
    check_unchanged(plan)
    place = _place(plan.root)
    if (place / _INDEX).exists():
        raise InputError(
            f"Files were written to {plan.root} before.", hint="First: ratchet init --undo"
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
    """Remove what is stored but the rest, and the state folder if it holds nothing else."""
    if remaining:
        write_file(_place(root) / _INDEX, msgspec.json.encode(Stored(tuple(remaining))))
        return
    shutil.rmtree(_place(root), ignore_errors=True)
    state = root / STATE_NAME
    if state.is_dir() and {file.name for file in state.iterdir()} <= {".gitignore"}:
        shutil.rmtree(state, ignore_errors=True)


def remove_file(root: Path, path: str, folders: tuple[str, ...]) -> None:
    """Remove a file, and of these folders those that are empty then."""
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
    """Write a file in one step; its mode stays."""
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
    """Folders of a path that are not there, innermost first."""
    for folder in PurePosixPath(path).parents:
        if str(folder) != "." and not (root / folder).exists():
            yield str(folder)
