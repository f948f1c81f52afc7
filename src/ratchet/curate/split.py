"""Splits tasks into train, val and test by hash, without leaks.

A task's split depends only on its group, and a group's on the content of its first task: tasks
appended to the list never move others (except that a task that joins two groups merges them, and
the later group moves to the earlier one's split). Tasks that say nearly the same are one group; see
`near_duplicates`. Where splits are stored, as in a dataset, they are given and stay as they are.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ratchet.curate.near_duplicates import near_duplicate_groups
from ratchet.types import SPLITS, ConfigError, Dataset, InputError, Split, Task, canonical_json
from ratchet.types.wording import counted

_LONGEST_TEXT = 20_000
"""Characters of an input that are compared; what follows must be equal."""

_NUMBER_MARK = re.compile(r"(?<![\w)\]-])[-−+](?=\d)|(?<=\d)(?:\.|\s?[+*/^=<>×÷]\s?)(?=\d)")
"""A sign, a decimal point or an operator, which changes a number's meaning."""

_BETWEEN_WORDS = re.compile(r"[\W_]+")


def split_tasks(
    tasks: Sequence[Task],
    *,
    name: str,
    fractions: Mapping[Split, float],
    group_by: str | None = None,
    near_duplicates: bool = True,
    fixed: Mapping[str, Split] | None = None,
) -> Dataset:
    """Create a dataset of these tasks with a split for each.

    Tasks of the same group share a split, and so do tasks whose inputs say nearly the same, or
    differ only in case, white space and punctuation.

    Args:
        tasks: The tasks, with unique ids.
        name: The dataset's name.
        fractions: Share of the groups for each split; they sum to 1.
        group_by: `expected` (the first accepted answer), `metadata.KEY`, `conversation` or `user`
            (the metadata of that name, where a task has it), or None for the input.
        near_duplicates: Keep inputs that say nearly the same together.
        fixed: Split by task id of tasks that have one. They keep it, and others of their group get
            it; splits may then be empty.

    Raises:
        ConfigError: The fractions do not sum to 1, or group_by names nothing.
        InputError: A split is empty.
    """
    total = sum(fractions.get(split, 0.0) for split in SPLITS)
    if any(fractions.get(split, 0.0) < 0 for split in SPLITS) or not abs(total - 1.0) <= 1e-9:
        raise ConfigError(
            f"The shares of train, val and test sum to {total:g}, not 1.",
            hint="Correct split under [tasks] in ratchet.toml.",
        )
    groups = groups_of(tasks, group_by, near_duplicates)
    if fixed is not None:
        return Dataset(name, tuple(tasks), _added(groups, fractions, fixed))
    splits = {task.id: split_of(groups[task.id], fractions) for task in tasks}
    for split in SPLITS:
        if fractions.get(split, 0.0) > 0 and split not in splits.values():
            count = len(set(groups.values()))
            raise InputError(
                f"No task is in the {split} split: there are {counted(len(tasks), 'task')} in"
                f" {counted(count, 'group')}.",
                hint="Add tasks, or group them differently: --group-by, or group_by and split under"
                " [tasks] in ratchet.toml.",
            )
    return Dataset(name=name, tasks=tuple(tasks), splits=splits)


def leaking_groups(dataset: Dataset, group_by: str | None = None) -> list[list[Task]]:
    """Groups whose tasks are in several splits, because tasks state a split; see `split_tasks`.

    Raises:
        ConfigError: group_by names nothing.
    """
    members: dict[bytes, list[Task]] = {}
    groups = groups_of(dataset.tasks, group_by, near_duplicates=True)
    for task in dataset.tasks:
        members.setdefault(groups[task.id], []).append(task)
    return [own for own in members.values() if len({dataset.splits[task.id] for task in own}) > 1]


def _added(
    groups: Mapping[str, bytes], fractions: Mapping[Split, float], fixed: Mapping[str, Split]
) -> dict[str, Split]:
    """Splits in which tasks with a split keep it, and others join their group's first."""
    of_group: dict[bytes, Split] = {}
    for task_id, group in groups.items():
        if task_id in fixed:
            of_group.setdefault(group, fixed[task_id])
    return {
        task_id: fixed.get(task_id) or of_group.get(group) or split_of(group, fractions)
        for task_id, group in groups.items()
    }


def split_of(group: bytes, fractions: Mapping[Split, float]) -> Split:
    """The split of a group, from its content alone."""
    point = point_of(group)
    edge = 0.0
    selected: Split = "test"
    for split in SPLITS:
        edge += fractions.get(split, 0.0)
        if fractions.get(split, 0.0) > 0:
            selected = split
            if point < edge:
                return split
    return selected


def point_of(group: bytes) -> float:
    """A pseudorandom number in [0, 1) from a group's content."""
    return int.from_bytes(hashlib.sha256(b"ratchet-split:" + group).digest()[:8], "big") / 2**64


def groups_of(
    tasks: Sequence[Task], group_by: str | None, near_duplicates: bool
) -> dict[str, bytes]:
    """Group by task id: tasks that share a key, directly or transitively, are one group."""
    parent: dict[bytes, bytes] = {}
    age: dict[bytes, int] = {}

    def root(key: bytes) -> bytes:
        age.setdefault(key, len(age))
        while parent.setdefault(key, key) != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    def join(left: bytes, right: bytes) -> None:
        older, younger = sorted((root(left), root(right)), key=age.__getitem__)
        parent[younger] = older

    first: dict[str, bytes] = {}
    for task in tasks:
        key = input_key(task.input)
        group_key = None if group_by is None else _group_key(task, group_by)
        first[task.id] = key if group_key is None else group_key
        join(first[task.id], key)
    if near_duplicates:
        copies = near_duplicate_groups([text_of(task.input) for task in tasks])
        for task, leader in zip(tasks, copies, strict=True):
            join(first[tasks[leader].id], first[task.id])
    return {task_id: root(key) for task_id, key in first.items()}


def input_key(value: Any) -> bytes:
    """Equal for inputs that differ only in case, white space and punctuation.

    Raises:
        InputError: It is not JSON.
    """
    return b"input:" + canonical_json(_normal(value))


def text_of(value: Any) -> str:
    """The text of an input for comparison: its keys, texts and numbers in order."""
    text = "\n".join(_texts(value))
    if len(text) <= _LONGEST_TEXT:
        return text
    digest = hashlib.sha256(text[_LONGEST_TEXT:].encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:_LONGEST_TEXT]} 0x{digest}"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"{key}:"
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    else:
        yield str(value)


def _group_key(task: Task, group_by: str) -> bytes | None:
    if group_by in ("conversation", "user"):
        group = task.metadata.get(group_by)
        return None if group is None else b"group:" + canonical_json([group_by, group])
    return b"group:" + canonical_json(_group_value(task, group_by))


def _group_value(task: Task, group_by: str) -> Any:
    if group_by == "expected":
        expected = task.expected
        return _normal(expected[0] if isinstance(expected, list) and expected else expected)
    kind, _, key = group_by.partition(".")
    if kind != "metadata" or not key:
        raise ConfigError(
            f"Tasks cannot be grouped by {group_by!r}.",
            hint="Group by 'expected', 'conversation', 'user' or 'metadata.KEY'.",
        )
    if key not in task.metadata:
        raise ConfigError(f"group_by names metadata {key!r}, which task {task.id!r} does not have.")
    return _normal(task.metadata[key])


def _normal(value: Any) -> Any:
    if isinstance(value, str):
        composed = unicodedata.normalize("NFKC", value)
        words = _BETWEEN_WORDS.sub(" ", composed.casefold()).strip()
        marks = [mark.strip() for mark in _NUMBER_MARK.findall(composed)]
        return " ".join((words, *marks)) if marks else words
    if isinstance(value, list):
        return [_normal(item) for item in value]
    if isinstance(value, dict):
        return {key: _normal(item) for key, item in value.items()}
    return value
