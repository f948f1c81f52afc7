"""Reads tasks from a JSON Lines file, and reports bad lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from ratchet.curate.answer_names import answer_note, input_hint, similar_answers
from ratchet.curate.json_text import JsonReader
from ratchet.curate.text_file import open_text
from ratchet.types import SPLITS, InputError, Split, Task, content_hash
from ratchet.types.wording import counted, size_text

MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_ID_CHARACTERS = 200
MAX_DEPTH = 100
"""Maximum nesting of lists and objects, since later code walks them recursively."""

_TOO_DEEP = f"the line is nested too deeply; {MAX_DEPTH} levels are allowed"

_SPLIT_NAMES = {"validation": "val", "valid": "val", "dev": "val", "training": "train"}
"""Names of splits in files of other programs."""


class TaskFile(msgspec.Struct, frozen=True):
    """Contents of a task file."""

    tasks: tuple[Task, ...]
    bad: tuple[str, ...]
    """A sentence for each skipped line."""
    splits: dict[str, Split] = {}
    """Split by task id, for tasks that state it."""
    notes: tuple[str, ...] = ()
    """Sentences on how the file was read, and on what seems to be missing."""


def read_tasks(
    path: Path, *, fields: Mapping[str, str] | None = None, skip_bad: bool = False
) -> TaskFile:
    """Read tasks, one JSON object per line: `input`, and optionally `id`, `expected`, `metadata`,
    `split`.

    Other keys become metadata. Blank lines are ignored.

    Args:
        path: The file.
        fields: Key in the file by field: {"input": "question", "expected": "answer"}.
        skip_bad: Skip bad lines instead of refusing the file.

    Raises:
        InputError: The file cannot be read, a line is bad (its number is named), or no task is
            left.
    """
    names = {"id": "id", "input": "input", "expected": "expected", **(fields or {})}
    tasks: dict[str, Task] = {}
    lines: dict[str, int] = {}
    splits: dict[str, Split] = {}
    bad: list[str] = []
    notes: list[str] = []
    for number, line in _lines(path, notes):
        try:
            data = json_of(line)
            split = take_split(data, names)
            task = task_of(data, names)
            if task.id in lines:
                at = lines[task.id]
                raise ValueError(
                    f"the id {task.id!r} is already on line {at}"
                    if data.get(names["id"]) is not None
                    else f"the same task is already on line {at}, and neither has an id"
                )
        except ValueError as error:
            bad.append(f"{path}:{number}: {error}.")
            continue
        tasks[task.id] = task
        lines[task.id] = number
        if split is not None:
            splits[task.id] = split
    if bad and not skip_bad:
        more = f" ({counted(len(bad) - 1, 'more bad line')}.)" if len(bad) > 1 else ""
        raise InputError(
            f"{bad[0]}{more}", hint="Correct the file, or skip bad lines with --skip-bad."
        )
    if not tasks:
        raise InputError(
            f"{path} contains no tasks.",
            hint='Write one task per line: {"input": "…", "expected": "…"}.',
        )
    read = tuple(tasks.values())
    note = answer_note(read, names["expected"])
    # Many agents are judged without answers: only one that seems to be misnamed is worth a word.
    if note and similar_answers(read):
        notes.append(f'{path.name}: {note} Name it under [tasks]: expected = "KEY".')
    return TaskFile(read, tuple(bad), splits, tuple(notes))


def _lines(path: Path, notes: list[str]) -> Iterator[tuple[int, bytes]]:
    try:
        with open_text(path) as text:
            if text.encoding.note:
                notes.append(f"{path.name}: {text.encoding.note}")
            yield from lines_of(text.stream)
    except FileNotFoundError:
        raise InputError(
            f"There is no task file {path}.",
            hint='Write one JSON object per line: {"input": …, "expected": …}. Or capture tasks'
            " from traces: ratchet datasets capture. To use another file or a dataset, name it"
            ' under [tasks] in ratchet.toml. To run without tasks: ratchet run "INPUT".',
        ) from None
    except OSError as error:
        raise InputError(
            f"The task file {path} cannot be read: {error.strerror or error}.",
            hint="Check `file` under [tasks] in ratchet.toml, or name a dataset of the store:"
            ' dataset = "NAME" there, or --dataset NAME.',
        ) from None


def lines_of(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, each with its number.

    One that is too long is cut, so that `json_of` refuses it.
    """
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        piece = line
        while len(line) > MAX_LINE_BYTES and piece and not piece.endswith(b"\n"):
            piece = stream.readline(MAX_LINE_BYTES)
        stripped = line if len(line) > MAX_LINE_BYTES else line.strip()
        if stripped:
            yield number, stripped


def take_split(data: Any, names: Mapping[str, str]) -> Split | None:
    """Take the split out of a record; other values of that key stay metadata.

    Args:
        data: The record, which is changed.
        names: As for `task_of`.
    """
    if not isinstance(data, dict) or "split" in names.values():
        return None
    stated = data.get("split")
    lower = stated.strip().lower() if isinstance(stated, str) else ""
    split_name = _SPLIT_NAMES.get(lower, lower)
    split: Split | None = next((name for name in SPLITS if name == split_name), None)
    if split is not None:
        del data["split"]
    return split


def task_of(data: Any, names: Mapping[str, str]) -> Task:
    """The task of a JSON object.

    Args:
        data: The object.
        names: Key in the object by field: `id`, `input` and `expected`.

    Raises:
        ValueError: It is not a task; the message is a clause.
    """
    if not isinstance(data, dict):
        raise ValueError(f"the line is {_kind(data)}, but a task is a JSON object")
    if names["input"] not in data:
        near = f"; its keys are {sorted(data)[:10]}{input_hint(data)}"
        raise ValueError(f"the task has no {names['input']!r}{near}")
    # One key may fill two fields, such as a question that is both input and id.
    task_input, expected, task_id = (data.get(names[key]) for key in ("input", "expected", "id"))
    fields = {key: value for key, value in data.items() if key not in names.values()}
    metadata = fields.pop("metadata", {})
    if not isinstance(metadata, dict):
        raise ValueError(f"metadata is {_kind(metadata)}, but should be a JSON object")
    metadata = {**fields, **metadata}
    try:
        content = content_hash([task_input, expected, metadata])
    except InputError as error:  # a lone surrogate, or a number too large for a float
        raise ValueError(error.message.rstrip(".")) from None
    return Task(content[:12] if task_id is None else _id(task_id), task_input, expected, metadata)


def _id(value: Any) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not text:
        raise ValueError(f"the id {text!r} is not a string")
    if len(text) > MAX_ID_CHARACTERS:
        raise ValueError(
            f"the id {text[:20]!r}… has {counted(len(text), 'character')}; {MAX_ID_CHARACTERS} are"
            " allowed"
        )
    if not text.isprintable():
        raise ValueError(f"the id {text!r} contains characters that cannot be printed")
    return text


def json_of(line: bytes) -> Any:
    """Parse JSON strictly: no NaN, no duplicate keys, not nested too deeply.

    Raises:
        ValueError: It is not JSON; the message is a clause.
    """
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"the line has more than {size_text(MAX_LINE_BYTES)}")
    try:
        data = JsonReader(_refuse).parse(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} of the line is not UTF-8") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if _deeper_than(data, MAX_DEPTH):
        raise ValueError(_TOO_DEEP)
    return data


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _deeper_than(value: Any, depth: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    items = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_deeper_than(item, depth - 1) for item in items)


def _kind(value: Any) -> str:
    kinds = {list: "a list", str: "a text", bool: "a boolean", dict: "an object"}
    return "null" if value is None else kinds.get(type(value), "a number")
