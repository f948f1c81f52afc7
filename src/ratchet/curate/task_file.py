"""Reads tasks from a JSON Lines file; a bad line is named, never guessed at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ratchet.types import InputError, Task, content_hash

MAX_LINE_BYTES = 16 * 1024 * 1024


class TaskFile(msgspec.Struct, frozen=True):
    """What a task file held."""

    tasks: tuple[Task, ...]
    bad: tuple[str, ...]
    """A sentence for each line that was skipped."""


def read_tasks(
    path: Path, *, fields: Mapping[str, str] | None = None, skip_bad: bool = False
) -> TaskFile:
    """Read tasks, one JSON object a line: `input`, and optionally `id`, `expected`, `metadata`.

    Keys beyond those become metadata. Blank lines do not count.

    Args:
        path: The file.
        fields: Names of the file's own keys, by ours: {"input": "question", "expected": "answer"}.
        skip_bad: Leave bad lines out instead of refusing the file.

    Raises:
        InputError: The file cannot be read, a line is bad (it is named), or no task is left.
    """
    names = {"id": "id", "input": "input", "expected": "expected", **(fields or {})}
    tasks: dict[str, Task] = {}
    lines: dict[str, int] = {}
    bad: list[str] = []
    for number, line in _lines(path):
        try:
            task = _task(line, names)
            if task.id in lines:
                raise ValueError(f"the id {task.id!r} stands on line {lines[task.id]} already")
        except ValueError as error:
            bad.append(f"{path}:{number}: {error}.")
            continue
        tasks[task.id] = task
        lines[task.id] = number
    if bad and not skip_bad:
        more = f" ({len(bad) - 1} more lines are bad.)" if len(bad) > 1 else ""
        raise InputError(
            f"{bad[0]}{more}", hint="Mend the file, or leave bad lines out: --skip-bad."
        )
    if not tasks:
        raise InputError(
            f"{path} holds no tasks.", hint='Each line is one: {"input": "…", "expected": "…"}.'
        )
    return TaskFile(tuple(tasks.values()), tuple(bad))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                stripped = line.removeprefix(b"\xef\xbb\xbf").strip()
                if stripped:
                    yield number, stripped
    except OSError as error:
        raise InputError(
            f"The task file {path} cannot be read: {error.strerror}.",
            hint="Check file under [tasks] in ratchet.toml.",
        ) from None


def _task(line: bytes, names: Mapping[str, str]) -> Task:
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"the line has {len(line)} bytes; a task has at most {MAX_LINE_BYTES}")
    data = _json(line)
    if not isinstance(data, dict):
        raise ValueError(f"the line is {_kind(data)}, and a task is a JSON object")
    if names["input"] not in data:
        near = f"; its keys are {sorted(data)[:10]}"
        raise ValueError(f"the task has no {names['input']!r}{near}")
    metadata = data.pop("metadata", {})
    if not isinstance(metadata, dict):
        raise ValueError(f"metadata is {_kind(metadata)}, and should be a JSON object")
    given = data.pop(names["input"])
    expected = data.pop(names["expected"], None)
    task_id = data.pop(names["id"], None)
    metadata = {**data, **metadata}
    if task_id is None:
        task_id = content_hash([given, expected, metadata])[:12]
    if isinstance(task_id, int) and not isinstance(task_id, bool):
        task_id = str(task_id)
    if not isinstance(task_id, str) or not task_id:
        raise ValueError(f"the id {task_id!r} is not a text")
    return Task(task_id, given, expected, metadata)


def _json(line: bytes) -> Any:
    def refuse(text: str) -> float:
        raise ValueError(f"{text} is not JSON")

    try:
        return json.loads(line.decode("utf-8"), parse_constant=refuse)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} of the line is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("the line is nested too deeply") from None


def _kind(value: Any) -> str:
    kinds = {list: "a list", str: "a text", bool: "a boolean", dict: "an object"}
    return "null" if value is None else kinds.get(type(value), "a number")
