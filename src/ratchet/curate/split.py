"""Splits tasks into train, val and test by hash, without leaks.

A task's split depends only on its group, and a group's on the content of its first task: tasks
appended to the list never move others (except that a task that joins two groups merges them, and
the later group moves to the earlier one's split). Tasks that differ only in wording can be grouped.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.types import SPLITS, ConfigError, Dataset, InputError, Split, Task, canonical_json

_BETWEEN_WORDS = re.compile(r"[\W_]+")


def split_tasks(
    tasks: Sequence[Task],
    *,
    name: str,
    fractions: Mapping[Split, float],
    group_by: str | None = None,
) -> Dataset:
    """Create a dataset of these tasks with a split for each.

    Tasks of the same group share a split, and so do tasks whose inputs differ only in case, white
    space and punctuation.

    Args:
        tasks: The tasks, with unique ids.
        name: The dataset's name.
        fractions: Share of the groups for each split; they sum to 1.
        group_by: `expected` (the first accepted answer), `metadata.KEY`, or None for the input.

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
    groups = _groups(tasks, group_by)
    splits = {task.id: _split_of(groups[task.id], fractions) for task in tasks}
    for split in SPLITS:
        if fractions.get(split, 0.0) > 0 and split not in splits.values():
            count = len(set(groups.values()))
            raise InputError(
                f"No task is in the {split} split: there are {len(tasks)} tasks in {count} groups.",
                hint="Add tasks, or change split or group_by under [tasks] in ratchet.toml.",
            )
    return Dataset(name=name, tasks=tuple(tasks), splits=splits)


def _split_of(group: bytes, fractions: Mapping[Split, float]) -> Split:
    point = int.from_bytes(hashlib.sha256(b"ratchet-split:" + group).digest()[:8], "big") / 2**64
    edge = 0.0
    selected: Split = "test"
    for split in SPLITS:
        edge += fractions.get(split, 0.0)
        if fractions.get(split, 0.0) > 0:
            selected = split
            if point < edge:
                return split
    return selected


def _groups(tasks: Sequence[Task], group_by: str | None) -> dict[str, bytes]:
    """Group by task id: tasks that share a key, directly or transitively, are one group."""
    parent: dict[bytes, bytes] = {}
    age: dict[bytes, int] = {}

    def root(key: bytes) -> bytes:
        age.setdefault(key, len(age))
        while parent.setdefault(key, key) != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    first: dict[str, bytes] = {}
    for task in tasks:
        keys = [b"input:" + canonical_json(_normal(task.input))]
        if group_by is not None:
            keys.insert(0, b"group:" + canonical_json(_group_value(task, group_by)))
        first[task.id] = keys[0]
        for key in keys[1:]:
            older, younger = sorted((root(keys[0]), root(key)), key=age.__getitem__)
            parent[younger] = older
    return {task_id: root(key) for task_id, key in first.items()}


def _group_value(task: Task, group_by: str) -> Any:
    if group_by == "expected":
        expected = task.expected
        return _normal(expected[0] if isinstance(expected, list) and expected else expected)
    kind, _, key = group_by.partition(".")
    if kind != "metadata" or not key:
        raise ConfigError(
            f"group_by = {group_by!r} under [tasks] is neither 'expected' nor 'metadata.KEY'."
        )
    if key not in task.metadata:
        raise ConfigError(f"group_by names metadata {key!r}, which task {task.id!r} does not have.")
    return _normal(task.metadata[key])


def _normal(value: Any) -> Any:
    if isinstance(value, str):
        composed = unicodedata.normalize("NFKC", value)
        return _BETWEEN_WORDS.sub(" ", composed.casefold()).strip()
    if isinstance(value, list):
        return [_normal(item) for item in value]
    if isinstance(value, dict):
        return {key: _normal(item) for key, item in value.items()}
    return value
