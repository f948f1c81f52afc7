"""What tasks were used for by a project's runs: what learning saw is never a test task again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ratchet.curate.split import input_key
from ratchet.store import Store
from ratchet.types import Dataset, Split, Task

_NEWEST = 1000


class TaskRoles:
    """The splits that inputs had in the runs of a project.

    A task that learned or selected once keeps that role, and one that was a test task is one until
    learning takes it.

    Args:
        store: Its runs and their datasets are read.
        project: Says the project's identity; asked if there are runs.
    """

    def __init__(self, store: Store, project: Callable[[], str]) -> None:
        self._by_input: dict[bytes, Split] = {}
        runs = store.runs.list(_NEWEST)
        identity = project() if runs else ""
        oldest_first = sorted(runs, key=lambda run: run.created_at)
        versions = [
            version
            for run in oldest_first
            if run.project == identity
            for version in (*run.earlier_versions, run.dataset_version)
        ]
        for version in dict.fromkeys(versions):
            for value, split in store.datasets.inputs(version):
                self._note(value, split)

    def _note(self, value: Any, split: Split) -> None:
        key = input_key(value)
        if split != "test" or key not in self._by_input:
            self._by_input[key] = split

    def of(self, tasks: Sequence[Task]) -> dict[str, Split]:
        """The role of each task that has one, by id."""
        keys = {task.id: input_key(task.input) for task in tasks}
        return {id: self._by_input[key] for id, key in keys.items() if key in self._by_input}

    def of_learning(self, tasks: Sequence[Task]) -> dict[str, Split]:
        """Those of the tasks that learning or selection has used, with their role."""
        return {id: role for id, role in self.of(tasks).items() if role != "test"}


def without_learned(dataset: Dataset, roles: TaskRoles | None) -> Dataset:
    """The dataset without test tasks that learning has used; its reason says how many.

    They go back to the split in which learning used them.
    """
    learned = roles.of_learning(dataset.split("test")) if roles else {}
    if not learned:
        return dataset
    count = len(learned)
    tasks, are = ("task", "is") if count == 1 else ("tasks", "are")
    return msgspec.structs.replace(
        dataset,
        splits={**dataset.splits, **learned},
        parent=dataset.version,
        reason=f"{count} {tasks} of the test split {are} left out of it, since learning has used"
        f" {'it' if count == 1 else 'them'}.",
    )
