"""What tasks were used for by a project's runs: what learning saw is never a test task again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from ratchet.curate.split import input_key
from ratchet.store import Store
from ratchet.types import SPLITS, Dataset, Split, Task

_ALL = 1_000_000


class TaskRoles:
    """The splits that inputs had in the runs of a project.

    One that learning used once is never a test task again; one that was in train and in val is for
    train.

    Args:
        store: Its runs and their datasets are read.
        project: Says the project's identity; asked if there are runs.
    """

    def __init__(self, store: Store, project: Callable[[], str]) -> None:
        self._by_input: dict[bytes, Split] = {}
        runs = store.runs.list(_ALL)
        identity = project() if runs else ""
        versions = {
            version
            for run in runs
            if run.project == identity
            for version in (*run.earlier_versions, run.dataset_version)
        }
        for value, splits in store.datasets.uses(sorted(versions)):
            key = input_key(value)
            had = {*splits, self._by_input.get(key, "test")}
            self._by_input[key] = next(split for split in SPLITS if split in had)

    def of(self, tasks: Sequence[Task]) -> dict[str, Split]:
        """The role of each task that has one, by id."""
        keys = {task.id: input_key(task.input) for task in tasks}
        return {id: self._by_input[key] for id, key in keys.items() if key in self._by_input}

    def of_learning(self, tasks: Sequence[Task]) -> dict[str, Split]:
        """Those of the tasks that learning or selection has used, with their role."""
        return {id: role for id, role in self.of(tasks).items() if role != "test"}


def without_learned(
    dataset: Dataset, roles: TaskRoles | None, groups: Mapping[str, bytes] | None = None
) -> Dataset:
    """The dataset without test tasks that learning has used; its reason says how many.

    They go back to the split in which learning used them.

    Args:
        dataset: The dataset.
        roles: What its tasks were used for.
        groups: Group by task id. What is of one group with a task that learning has used tells as
            little about a candidate, and goes with it.
    """
    if roles is None:
        return dataset
    group_of = groups or {}
    used = roles.of_learning(dataset.tasks)
    used_groups = {group_of.get(id, id): role for id, role in used.items()}
    learned = {
        task.id: role
        for task in dataset.split("test")
        if (role := used_groups.get(group_of.get(task.id, task.id)))
    }
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
