"""What a project's model may learn from: never what a proof is made on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ratchet.autopilot.project import Project
from ratchet.autopilot.project_evaluators import objective_of, project_evaluators
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.curate.split import input_key, split_tasks
from ratchet.types import Dataset, Split, Task
from ratchet.weights.selection import SplitOf


def training_splits(project: Project) -> SplitOf:
    """The splits of inputs, by the project's tasks.

    An input that says nearly the same as a task has the task's split. One that resembles no task
    is `train`.
    """
    if not project.has_tasks():
        return lambda inputs: ["train"] * len(inputs)
    dataset, _ = project_dataset(project, skip_bad=True, needs=())
    return _Splits(dataset, near_duplicates=project.config.tasks.near_duplicates)


class _Splits:
    def __init__(self, dataset: Dataset, *, near_duplicates: bool) -> None:
        self._dataset = dataset
        self._near_duplicates = near_duplicates
        self._known = {input_key(task.input): dataset.splits[task.id] for task in dataset.tasks}

    def __call__(self, inputs: Sequence[Any]) -> list[Split]:
        keys = [input_key(task_input) for task_input in inputs]
        new = {
            key: task_input
            for key, task_input in zip(keys, inputs, strict=True)
            if key not in self._known
        }
        if new:
            self._add(new)
        return [self._known[key] for key in keys]

    def _add(self, new: dict[bytes, Any]) -> None:
        tasks = [
            Task(f"new:{number}", task_input) for number, task_input in enumerate(new.values())
        ]
        split = split_tasks(
            [*self._dataset.tasks, *tasks],
            name=self._dataset.name,
            fractions={"train": 1.0},
            fixed=self._dataset.splits,
            near_duplicates=self._near_duplicates,
        )
        for key, task in zip(new, tasks, strict=True):
            self._known[key] = split.splits[task.id]


def objective_name(project: Project) -> str:
    """The evaluator that training selects by: the project's objective."""
    agent = project.load_agent()
    return objective_of(project.config, project_evaluators(project), agent)
