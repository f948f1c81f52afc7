"""The whole wiring as one plan, checked before anything is written."""

from __future__ import annotations

import ast
import difflib
import os
import stat
import tomllib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from ratchet.types import InputError
from ratchet.wire.changes import Changes, FileChange, LeftAlone, StepChanges, apply_pieces
from ratchet.wire.choices import Choices
from ratchet.wire.facts import RepositoryLook
from ratchet.wire.former.record import NAME, hash_of, record_of, record_text

WiringStep = Callable[[Path, RepositoryLook, Choices], StepChanges]
_DATA = {"toml": "toml", "yaml": "yaml", "yml": "yaml", "json": "json", "ipynb": "json"}


class FormerPlan(msgspec.Struct, frozen=True):
    """What would be written; nothing is yet."""

    choices: Choices
    changes: Changes
    """With the record of them."""
    config: dict[str, Any]
    """Tables of `ratchet.toml`."""
    read: dict[str, str]
    """Fingerprint of each changed file's bytes as they were read; empty for a new file."""

    @property
    def left_alone(self) -> tuple[LeftAlone, ...]:
        """What was found and is not wired, with the reason."""
        return self.changes.left_alone


def make_plan(
    root: Path,
    look: RepositoryLook,
    choices: Choices,
    steps: Sequence[WiringStep] | None = None,
) -> FormerPlan:
    """Join the changes of all steps, and check that what they make can be read.

    Args:
        root: The repository.
        look: Its facts.
        choices: What is decided.
        steps: Instead of Ratchet's own; those of the project's files come last in any case.

    Raises:
        InputError: Steps contradict one another, a file that exists would be overwritten or written
            through a link, or a result does not parse.
    """
    from ratchet.wire.former.all_project_files import project_files

    root = root.resolve()
    made = [step(root, look, choices) for step in (own_steps() if steps is None else steps)]
    config = merged(one.config for one in made)
    made.append(project_files(root, look, choices, config))
    changes = Changes.combined(one.changes for one in made)
    before = {change.path: read(root, change.path) for change in changes.files}
    check(changes, before)
    path = record_path(choices.project)
    record = record_text(record_of(choices, changes.files, before))
    own = FileChange(path, "What was made, to take it back.", content=record)
    if not changes.files:
        return FormerPlan(choices, changes, config, {})
    before[path] = read(root, path)
    whole = Changes((*changes.files, own), changes.left_alone)
    check(Changes((own,)), before)
    return FormerPlan(
        choices, whole, config, {path: hash_of(data) for path, data in before.items()}
    )


def own_steps() -> list[WiringStep]:
    """Ratchet's own steps: prompts, entry and tools, starters."""
    from ratchet.wire.codemods import bind_prompts
    from ratchet.wire.entry import wire_entry
    from ratchet.wire.starters import starters

    return [bind_prompts, wire_entry, starters]


def record_path(project: str) -> str:
    """Where the record of a project is."""
    return NAME if project == "." else f"{project}/{NAME}"


def merged(tables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Join tables: those of one name key by key, lists end to end without repeats.

    Raises:
        InputError: Two give a key different values.
    """
    joined: dict[str, Any] = {}
    for one in tables:
        _merge(joined, one, "")
    return joined


def _merge(into: dict[str, Any], table: Mapping[str, Any], within: str) -> None:
    for key, value in table.items():
        old = into.get(key)
        if key not in into:
            into[key] = dict(value) if isinstance(value, Mapping) else value
        elif isinstance(old, dict) and isinstance(value, Mapping):
            _merge(old, value, f"{within}{key}.")
        elif isinstance(old, list) and isinstance(value, list):
            into[key] = [*old, *(one for one in value if one not in old)]
        elif old != value:
            raise InputError(
                f"Two steps of the wiring give {within}{key} different values:"
                f" {old!r} and {value!r}."
            )


def read(root: Path, path: str) -> bytes | None:
    """Bytes of a file of the repository; None if it is not there.

    Raises:
        InputError: The path leads out of the repository or through a link, or cannot be read or
            written.
    """
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or parts[0] == ".git":
        raise InputError(f"{path} is not a file of the repository.")
    whole = root
    for part in parts:
        whole = whole / part
        if whole.is_symlink():
            inner = whole.relative_to(root).as_posix()
            raise InputError(
                f"{inner} is a symbolic link; nothing is written through links.",
                hint=f"Wire the folder that it leads to: {os.readlink(whole)}",
            )
    try:
        mode = whole.lstat().st_mode
        if not stat.S_ISREG(mode):
            raise InputError(f"{path} is not an ordinary file.")
        if not mode & 0o222:
            raise InputError(f"{path} is read-only.", hint=f"Allow it: chmod u+w {path}")
        return whole.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        above = next((one for one in (whole.parent, *whole.parents) if one.exists()), root)
        if not above.is_dir():
            raise InputError(f"{path} cannot be made: {above.name} is a file.") from None
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def contents(root: Path, plan: FormerPlan) -> dict[str, bytes]:
    """New bytes of each file of a plan.

    Raises:
        InputError: A file changed since the plan was made.
    """
    made = {}
    for change in plan.changes.files:
        data = read(root, change.path)
        if hash_of(data) != plan.read[change.path]:
            raise InputError(
                f"{change.path} changed since the plan was made.", hint="Run ratchet init again."
            )
        made[change.path] = _after(change, data)
    return made


def dry_run(root: Path, plan: FormerPlan) -> str:
    """The unified diff of all that would be written. Writes nothing, and starts no git."""
    root = root.resolve()
    shown = []
    for path, after in contents(root, plan).items():
        shown += _diff(path, read(root, path), after)
    return "".join(shown)


def _diff(path: str, before: bytes | None, after: bytes) -> list[str]:
    old, new = (_lines(data) for data in (before or b"", after))
    source = "/dev/null" if before is None else f"a/{path}"
    found = difflib.unified_diff(old, new, source, f"b/{path}")
    return [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in found
    ]


def _lines(data: bytes) -> list[str]:
    text = data.decode(errors="backslashreplace")
    return [line for line in text.replace("\n", "\n\0").split("\0") if line]


def _after(change: FileChange, data: bytes | None) -> bytes:
    if change.content is not None:
        return change.content.encode()
    return apply_pieces(data or b"", change.pieces)


def check(changes: Changes, before: Mapping[str, bytes | None]) -> None:
    """Check that changes fit the files, overwrite none, and that the new texts parse.

    Raises:
        InputError: One does not.
    """
    for change in changes.files:
        data = before[change.path]
        if change.content is not None and data is not None:
            raise InputError(
                f"{change.path} exists; nothing that exists is overwritten.",
                hint="Rename it, or take an earlier wiring back: ratchet init --undo",
            )
        if change.content is None and data is None:
            raise InputError(f"{change.path} is not there any more.", hint="Run it again.")
        if any(piece.end > len(data or b"") for piece in change.pieces):
            raise InputError(f"{change.path} changed while it was read.", hint="Run it again.")
        problem = unreadable(change.path, _after(change, data))
        if problem and data is not None and unreadable(change.path, data):
            raise InputError(f"{change.path} does not parse: {problem}.", hint="Fix it first.")
        if problem:
            raise InputError(
                f"The new text of {change.path} would not parse: {problem}.",
                hint="Nothing was written. Leave the prompt or tool there as it is, and report it.",
            )


def unreadable(path: str, data: bytes) -> str:
    """Why a file's own parser refuses it; empty if it does not, or has none here."""
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
