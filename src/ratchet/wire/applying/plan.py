"""A plan: files as they are and as they would become. This module writes nothing."""

from __future__ import annotations

import ast
import difflib
import os
import stat
import tomllib
import warnings
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import msgspec

from ratchet.types import InputError
from ratchet.wire.applying.record import RunTrace
from ratchet.wire.changes import Changes, apply_pieces

_DATA = {"toml": "toml", "yaml": "yaml", "yml": "yaml", "json": "json", "ipynb": "json"}


class PlannedFile(msgspec.Struct, frozen=True):
    """A file that is changed or created."""

    path: str
    """Relative to the plan's root, with forward slashes."""
    before: bytes | None
    """Content when the plan was made; None for a file to be created."""
    after: bytes
    purpose: str
    """Purpose of the change, as a sentence."""


class Plan(msgspec.Struct, frozen=True):
    """The files that would be written."""

    root: Path
    """The repository, or a folder in it."""
    files: tuple[PlannedFile, ...]
    traces: tuple[RunTrace, ...] = ()
    """What the recorded run did in the folder; it is kept."""


def make_plan(root: Path, parts: Iterable[Changes], traces: Iterable[RunTrace] = ()) -> Plan:
    """Join changes into a plan, and check that the new files can be written and will parse.

    Args:
        root: The repository, or a folder of one.
        parts: Changes of several steps, with paths relative to it.
        traces: What the recorded run did in it.

    Raises:
        InputError: Parts contradict one another, a file that exists would be replaced, a path leads
            out of the folder or through a link, or a result does not parse.
    """
    root = root.resolve()
    files = []
    for change in Changes.combined(parts).files:
        before = read(root, change.path)
        if change.content is not None and before is not None:
            raise InputError(
                f"{change.path} already exists, and existing files are not replaced.",
                hint="Rename it, or undo an earlier wiring: ratchet init --undo",
            )
        if change.content is None and before is None:
            raise InputError(f"{change.path} no longer exists.", hint="Run ratchet init again.")
        if any(piece.end > len(before or b"") for piece in change.pieces):
            raise InputError(
                f"{change.path} changed while it was read.", hint="Run ratchet init again."
            )
        content = change.content.encode() if change.content is not None else None
        after = apply_pieces(before or b"", change.pieces) if content is None else content
        files.append(PlannedFile(change.path, before, after, change.purpose))
    for file in files:
        _check_parses(file)
    changed = tuple(file for file in files if file.before != file.after)
    return Plan(root, changed, tuple(traces))


def show(plan: Plan) -> str:
    """The unified diff of everything that would be written. Does not run git."""
    return "".join(line for file in plan.files for line in _diff(file))


def check_unchanged(plan: Plan) -> None:
    """Raise InputError if a file has changed since the plan was made."""
    for file in plan.files:
        if read(plan.root, file.path) != file.before:
            raise InputError(
                f"{file.path} changed since the plan was made.", hint="Run ratchet init again."
            )


def read(root: Path, path: str) -> bytes | None:
    """Bytes of a file in a folder; None if it does not exist.

    Raises:
        InputError: The path leads out of the folder or through a link, or cannot be read or
            written.
    """
    parts = PurePosixPath(path).parts
    if not parts or "\0" in path or path.startswith("/") or {"..", ".git"} & set(parts):
        raise InputError(f"{path!r} is not a file in {root}.")
    target = root
    for part in parts:
        target = target / part
        if target.is_symlink():
            inner = target.relative_to(root).as_posix()
            raise InputError(
                f"{inner} is a symbolic link, and Ratchet does not write through links.",
                hint=f"Wire the folder that it points to: {os.readlink(target)}",
            )
    try:
        mode = target.lstat().st_mode
        if not stat.S_ISREG(mode):
            raise InputError(f"{path} is not a regular file.")
        if not mode & 0o222:
            raise InputError(f"{path} is read-only.", hint=f"Make it writable: chmod u+w {path}")
        return target.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        above = next((folder for folder in target.parents if folder.exists()), root)
        if not above.is_dir():
            raise InputError(f"{path} cannot be created: {above.name} is a file.") from None
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def _diff(file: PlannedFile) -> list[str]:
    old, new = (_lines(data) for data in (file.before or b"", file.after))
    source = "/dev/null" if file.before is None else f"a/{file.path}"
    lines = difflib.unified_diff(old, new, source, f"b/{file.path}")
    return [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    ]


def _lines(data: bytes) -> list[str]:
    text = data.decode(errors="backslashreplace")
    return [line for line in text.replace("\n", "\n\0").split("\0") if line]


def _check_parses(file: PlannedFile) -> None:
    problem = why_unreadable(file.path, file.after)
    if problem and file.before is not None and why_unreadable(file.path, file.before):
        raise InputError(f"{file.path} does not parse: {problem}.", hint="Fix it first.")
    if problem:
        raise InputError(
            f"The new text of {file.path} would not parse: {problem}.",
            hint="Nothing was written. Exclude that file, and please report this as a bug.",
        )


def why_unreadable(path: str, data: bytes) -> str:
    """Why the file's parser rejects it; empty if it parses or there is no parser for it."""
    ending = path.rpartition(".")[2].lower()
    if ending == "py":
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of strings that the user wrote
                ast.parse(data)
        except (SyntaxError, ValueError, RecursionError) as error:
            return str(error)
    form = _DATA.get(ending)
    # YAML of several documents, and JSON with comments, have parsers of their own.
    if form is not None and not path.endswith(("tsconfig.json", "jsonc")):
        try:
            text = data.decode("utf-8-sig")
            if form == "toml":
                tomllib.loads(text.replace("\r\n", "\n"))
            elif form == "json":
                msgspec.json.decode(text)
            else:
                import yaml

                for _ in yaml.compose_all(text, Loader=yaml.SafeLoader):
                    pass
        except (ValueError, RecursionError, msgspec.DecodeError) as error:
            return str(error)
        except Exception as error:  # yaml.YAMLError, which is imported late
            return str(error).partition("\n")[0]
    return ""
