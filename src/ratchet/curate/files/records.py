"""Records of dataset files: one per task, with its split and origin, the same in every format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ratchet.curate.answer_names import answer_note
from ratchet.curate.files.formats import FORMATS, format_of_file
from ratchet.curate.task_file import take_split, task_of
from ratchet.types import Dataset, InputError, Origin, Split, Task


class FileRecord(NamedTuple):
    """A value of a file, or the reason why it is invalid."""

    line: int
    """Line where it begins, from 1; the row's number in a format without lines."""
    value: Any = None
    error: str = ""


class ReadFile(msgspec.Struct, frozen=True):
    """Contents of a dataset file."""

    tasks: tuple[Task, ...]
    splits: dict[str, Split]
    """Split by task id, for tasks that state it."""
    bad: tuple[str, ...]
    """A sentence for each record that is not a task."""
    notes: tuple[str, ...] = ()
    """Sentences on how the file was read, and on what seems to be missing."""


def record_of(task: Task, split: Split) -> dict[str, Any]:
    """A task as a record."""
    return {
        "id": task.id,
        "input": task.input,
        "expected": task.expected,
        "metadata": task.metadata,
        "split": split,
        "origin": msgspec.to_builtins(task.origin),
    }


def write_dataset_file(dataset: Dataset, path: Path, format: str | None = None) -> None:
    """Write a dataset atomically to a file, or for `huggingface` to a folder.

    Args:
        dataset: The dataset.
        path: The file, which is replaced if it exists.
        format: A key of `FORMATS`; by default the one that the path's ending names.

    Raises:
        InputError: The format is unknown, needs a package, or the path cannot be written.
    """
    name = format_of_file(path, format)
    records = (record_of(task, dataset.splits[task.id]) for task in dataset.tasks)
    fresh = path.with_name(f".{path.name}.part")
    try:
        FORMATS[name].write(records, fresh)
        FORMATS[name].replace(fresh, path)
    except OSError as error:
        raise InputError(
            f"The dataset cannot be written to {path}: {error.strerror or error}."
        ) from None
    finally:
        FORMATS[name].remove(fresh)


def read_dataset_file(
    path: Path,
    format: str | None = None,
    *,
    fields: Mapping[str, str] | None = None,
    at: float = 0.0,
) -> ReadFile:
    """Read the tasks of a file, and list the records that are not tasks.

    Args:
        path: The file, or for `huggingface` a folder.
        format: A key of `FORMATS`; by default the one that the path's ending names.
        fields: Key in the file by field: {"input": "question", "expected": "answer"}.
        at: Unix seconds, for the origin of tasks that state none.

    Raises:
        InputError: The file cannot be read.
    """
    name = format_of_file(path, format)
    names = {"id": "id", "input": "input", "expected": "expected", **(fields or {})}
    tasks: dict[str, Task] = {}
    lines: dict[str, int] = {}
    splits: dict[str, Split] = {}
    bad: list[str] = []
    notes: list[str] = []
    for record in _records(name, path, notes.append):
        try:
            if record.error:
                raise ValueError(record.error)
            task, split = _read(record.value, names, at)
            if task.id in lines:
                raise ValueError(f"the id {task.id!r} is already on line {lines[task.id]}")
        except ValueError as error:
            bad.append(f"{path}:{record.line}: {error}.")
            continue
        tasks[task.id] = task
        lines[task.id] = record.line
        if split is not None:
            splits[task.id] = split
    if note := answer_note(tuple(tasks.values()), names["expected"]):
        notes.append(note)
    return ReadFile(tuple(tasks.values()), splits, tuple(bad), tuple(notes))


def _records(format: str, path: Path, say: Callable[[str], None]) -> Iterator[FileRecord]:
    try:
        for line, value, error in FORMATS[format].read(path, say):
            yield FileRecord(line, value, error)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None


def _read(value: Any, names: Mapping[str, str], at: float) -> tuple[Task, Split | None]:
    if not isinstance(value, dict):
        raise ValueError("it is not an object with the fields of a task")
    fields = dict(value)
    if fields.get("metadata") is None:
        fields.pop("metadata", None)
    stated = fields.get("origin")
    origin = Origin(by="import", at=at)
    # Other programs' files may have columns of these names that mean something else.
    if isinstance(stated, dict) and stated.keys() <= set(Origin.__struct_fields__):
        try:
            origin = msgspec.convert(stated, Origin)
            del fields["origin"]
        except msgspec.ValidationError as error:
            raise ValueError(f"its origin is not valid: {error}") from None
    split = take_split(fields, names)
    task = task_of(fields, names)
    return msgspec.structs.replace(task, origin=origin), split
