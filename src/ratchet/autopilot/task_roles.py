"""What tasks were used for by a project's runs: what learning saw is never a test task again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ratchet.curate.split import input_key
from ratchet.store import Store
from ratchet.types import Split, Task

_NEWEST = 1000


class TaskRoles:
    """The splits that inputs had in the runs of a project.

    A task that learned or selected once keeps that role, and one that was a test task is one until
    learning takes it.

    Args:
        store: Its runs and their datasets are read.
        project: The project's identity.
    """

    def __init__(self, store: Store, project: str) -> None:
        self._by_input: dict[bytes, Split] = {}
        runs = [run for run in store.runs.list(_NEWEST) if run.project == project]
        oldest_first = sorted(runs, key=lambda run: run.created_at)
        for version in dict.fromkeys(run.dataset_version for run in oldest_first):
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
