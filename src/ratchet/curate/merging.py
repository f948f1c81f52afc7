"""Merges tasks from a file into a dataset, as a new version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ratchet.curate.split import split_tasks
from ratchet.types import Dataset, Split, Task


def merged(
    dataset: Dataset,
    tasks: Sequence[Task],
    *,
    splits: Mapping[str, Split],
    fractions: Mapping[Split, float],
    group_by: str | None,
    reason: str,
    replace: bool = False,
) -> Dataset:
    """Add tasks to a dataset; a task with an existing id replaces the old one.

    Args:
        dataset: The dataset; one without tasks to begin.
        tasks: The tasks, with unique ids.
        splits: Split by task id, of those that have one. Others stay where they are, and new ones
            join the split of their group.
        fractions: Share of the groups for each split.
        group_by: See `split_tasks`.
        reason: What is changed, in a sentence.
        replace: Remove the tasks that are not among the given ones.
    """
    new = {task.id: task for task in tasks}
    if replace:
        combined = list(tasks)
    else:
        combined = [new.pop(task.id, task) for task in dataset.tasks]
        combined += [task for task in tasks if task.id in new]
    fixed = {**dataset.splits, **splits}
    ids = {task.id for task in combined}
    split = split_tasks(
        combined,
        name=dataset.name,
        fractions=fractions,
        group_by=group_by,
        fixed={id: own for id, own in fixed.items() if id in ids},
    )
    return msgspec.structs.replace(
        split,
        provenance=dataset.provenance,
        parent=dataset.version if dataset.tasks else "",
        reason=reason,
    )
