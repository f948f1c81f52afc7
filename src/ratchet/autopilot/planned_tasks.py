"""The test tasks of a comparison in the order of their pairs, journaled when they are planned.

A comparison that ran out of tasks before anything was proved is continued by tasks that are added.
The pairs that it has stay the first, in their order: which tasks it compares is never chosen by how
they turned out.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from ratchet.curate.split import input_key
from ratchet.store import Store
from ratchet.types import ConfigError, Dataset, Run, Task


class PlannedTasks(msgspec.Struct, frozen=True):
    """The tasks of a comparison."""

    tasks: tuple[Task, ...]
    """All tasks, in the order of the pairs."""
    totals: tuple[int, ...]
    """Number of tasks after each planning; several numbers if tasks were added since."""


def planned_tasks(run: Run, dataset: Dataset, store: Store, *, answered: bool) -> PlannedTasks:
    """The tasks of a run's comparison; tasks added to the dataset are planned now.

    Args:
        run: The run.
        dataset: The dataset that the comparison is made on, or continued with.
        store: Its journal remembers the plan, and its datasets the tasks.
        answered: Whether only tasks with an expected answer take part.

    Raises:
        ConfigError: There is no test task.
    """
    plannings = _plannings(run, store)
    if not plannings or plannings[-1]["dataset"] != dataset.version:
        planned = _tasks(plannings, dataset, store)
        new = added_tasks(planned, dataset, answered=answered)
        seed = f"{run.seed}/{len(plannings)}" if plannings else run.seed
        random.Random(seed).shuffle(new)  # noqa: S311 - reproducible, not secret
        body = {"dataset": dataset.version, "tasks": [task.id for task in new]}
        body = store.journal.append(run.id, _key(len(plannings)), body, time.time())
        plannings.append(body)
    totals: list[int] = []
    for planning in plannings:
        total = (totals[-1] if totals else 0) + len(planning["tasks"])
        if not totals or total > totals[-1]:
            totals.append(total)
    tasks = tuple(_tasks(plannings, dataset, store))
    if not tasks:
        raise ConfigError(
            f"The dataset {dataset.name!r} has no test tasks, without which nothing can be proved.",
            hint="Give test a share in split under [tasks] in ratchet.toml.",
        )
    return PlannedTasks(tasks, tuple(totals))


def tasks_to_continue(run: Run, dataset: Dataset, store: Store, *, answered: bool) -> int:
    """Number of test tasks that would continue a run's comparison; 0 if it cannot continue.

    It cannot if a task that it has compared was changed or removed: what was observed of it would
    have to be dropped, knowing how it turned out.
    """
    plannings = _plannings(run, store)
    planned = _tasks(plannings, dataset, store)
    now = {(task.id, task.content()) for task in dataset.tasks}
    if not plannings or any((task.id, task.content()) not in now for task in planned):
        return 0
    return len(added_tasks(planned, dataset, answered=answered))


def added_tasks(planned: Sequence[Task], dataset: Dataset, *, answered: bool) -> list[Task]:
    """The dataset's test tasks that are new to a comparison, by id and by input."""
    ids = {task.id for task in planned}
    inputs = {input_key(task.input) for task in planned}
    return [
        task
        for task in dataset.split("test", answered=answered)
        if task.id not in ids and input_key(task.input) not in inputs
    ]


def _plannings(run: Run, store: Store) -> list[dict[str, Any]]:
    plannings: list[dict[str, Any]] = []
    while (body := store.journal.get(run.id, _key(len(plannings)))) is not None:
        plannings.append(body)
    return plannings


def _tasks(plannings: Sequence[dict[str, Any]], dataset: Dataset, store: Store) -> list[Task]:
    tasks: list[Task] = []
    for planning in plannings:
        same = planning["dataset"] == dataset.version
        of_then = dataset if same else store.datasets.get(planning["dataset"])
        by_id = {task.id: task for task in of_then.tasks}
        tasks += [by_id[task_id] for task_id in planning["tasks"]]
    return tasks


def _key(number: int) -> str:
    return f"test-tasks/{number:03d}"
