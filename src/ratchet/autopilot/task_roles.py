"""What a project's runs used tasks for: a task that learning saw is never a test task again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from ratchet.curate.split import input_key
from ratchet.store import Store
from ratchet.types import SPLITS, Dataset, Split, Task

_ALL = 1_000_000


class TaskRoles:
    """The splits that inputs had in the runs of a project.

    An input that learning has used is never a test task again, and one that was in both train and
    val stays in train. So does a frozen set's task: what guards a proof neither selects nor proves.

    Args:
        store: Its runs and their datasets are read, and its frozen sets.
        project: Says the project's identity; asked if there are runs or frozen sets.
    """

    def __init__(self, store: Store, project: Callable[[], str]) -> None:
        self._by_input: dict[bytes, Split] = {}
        self._frozen: set[bytes] = set()
        if store.frozen_sets.latest() is not None:
            for frozen in store.frozen_sets.of_project(project()):
                self._frozen.update(input_key(task.input) for task in frozen.tasks)
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
        self._by_input.update(dict.fromkeys(self._frozen, "train"))

    def of(self, tasks: Sequence[Task]) -> dict[str, Split]:
        """The role of each task that has one, by id."""
        keys = {task.id: input_key(task.input) for task in tasks}
        return {id: self._by_input[key] for id, key in keys.items() if key in self._by_input}

    def frozen(self, tasks: Sequence[Task]) -> frozenset[str]:
        """Ids of the tasks whose input is also in a frozen set."""
        if not self._frozen:
            return frozenset()
        return frozenset(task.id for task in tasks if input_key(task.input) in self._frozen)

    def of_learning(self, tasks: Sequence[Task]) -> dict[str, Split]:
        """The tasks that learning or selection has used, with their roles."""
        return {id: role for id, role in self.of(tasks).items() if role != "test"}


def without_learned(
    dataset: Dataset, roles: TaskRoles | None, groups: Mapping[str, bytes] | None = None
) -> Dataset:
    """The dataset without test tasks that learning has used; its reason says how many.

    They go back to the split in which learning used them. Tasks of frozen sets go to train, from
    val and from test.

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
    frozen_ids = roles.frozen(dataset.tasks)
    frozen_groups = {group_of.get(id, id) for id in frozen_ids}
    frozen = {
        task.id
        for task in dataset.tasks
        if dataset.splits[task.id] != "train" and group_of.get(task.id, task.id) in frozen_groups
    }
    learned = {
        task.id: role
        for task in dataset.split("test")
        if task.id not in frozen and (role := used_groups.get(group_of.get(task.id, task.id)))
    }
    sentences = []
    if learned:
        tasks, are, them = _words(len(learned))
        sentences.append(
            f"{len(learned)} {tasks} of the test split {are} left out, because learning has used "
            f"{them}."
        )
    if frozen:
        tasks, are, them = _words(len(frozen))
        sentences.append(
            f"{len(frozen)} {tasks} of val and test {are} moved to train, because a frozen set "
            f"contains {them}."
        )
    if not sentences:
        return dataset
    return msgspec.structs.replace(
        dataset,
        splits={**dataset.splits, **learned, **dict.fromkeys(frozen, "train")},
        parent=dataset.version,
        reason=" ".join(sentences),
    )


def _words(count: int) -> tuple[str, str, str]:
    return ("task", "is", "it") if count == 1 else ("tasks", "are", "them")
