"""The difference between two versions of a dataset, task by task."""

from __future__ import annotations

import msgspec

from ratchet.types import Dataset, Task


class TaskChange(msgspec.Struct, frozen=True):
    """A task that is in both versions, and differs."""

    before: Task
    after: Task
    fields: tuple[str, ...]
    """Which of `input`, `expected`, `metadata` and `split` differ."""
    splits: tuple[str, str]
    """Before and after."""


class DatasetDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks that were added, removed and changed."""

    added: tuple[Task, ...]
    removed: tuple[Task, ...]
    changed: tuple[TaskChange, ...]
    same: int
    """Number of tasks without a change."""


def difference(before: Dataset, after: Dataset) -> DatasetDifference:
    """Compare two versions of a dataset by the ids of their tasks."""
    old = {task.id: task for task in before.tasks}
    new = {task.id: task for task in after.tasks}
    changed: list[TaskChange] = []
    for id in old.keys() & new.keys():
        old_task, new_task = old[id], new[id]
        fields = [
            field
            for field in ("input", "expected", "metadata")
            if getattr(old_task, field) != getattr(new_task, field)
        ]
        splits = (before.splits[id], after.splits[id])
        if splits[0] != splits[1]:
            fields.append("split")
        if fields:
            changed.append(TaskChange(old_task, new_task, tuple(fields), splits))
    order = {task.id: at for at, task in enumerate(after.tasks)}
    changed.sort(key=lambda change: order[change.after.id])
    return DatasetDifference(
        added=tuple(task for task in after.tasks if task.id not in old),
        removed=tuple(task for task in before.tasks if task.id not in new),
        changed=tuple(changed),
        same=len(old.keys() & new.keys()) - len(changed),
    )
