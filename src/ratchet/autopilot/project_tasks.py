"""The tasks of a project, from its file or dataset, and the split of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path

import msgspec

from ratchet.autopilot.learning_sections import ProveSection
from ratchet.autopilot.project import Project
from ratchet.autopilot.task_roles import TaskRoles, without_learned
from ratchet.curate import read_tasks, split_tasks
from ratchet.curate.split import groups_of, input_key
from ratchet.curate.usual_split import LARGE_FILE_SHARES, TEST_OF_FEW, usual_split
from ratchet.prove.alpha import level
from ratchet.prove.tasks_needed import PLANNED_VARIANCE, tasks_needed
from ratchet.stats.gain import USUAL_GAIN
from ratchet.store import Store
from ratchet.types import SPLITS, Dataset, InputError, Split
from ratchet.types.wording import counted


def tasks_to_prove(gain: float) -> int:
    """Number of tasks, in tens, of which a small file's test half likely proves a gain."""
    test = tasks_needed(level(ProveSection().alpha, ()), gain, PLANNED_VARIANCE)
    return 10 * ceil(test / TEST_OF_FEW / 10)


def project_dataset(
    project: Project,
    *,
    skip_bad: bool = False,
    store: Store | None = None,
    needs: Sequence[Split] = SPLITS,
) -> tuple[Dataset, tuple[str, ...]]:
    """The tasks with their splits, and sentences on how a task file was read.

    A split that a task states itself is kept, but a task that learning or selection has used is
    no test task, whatever is stated or configured.

    Args:
        project: The project.
        skip_bad: Skip malformed lines of a task file.
        store: The project's store, if it is open.
        needs: Splits that may not be empty.

    Raises:
        InputError: The task file cannot be used; or the store has no such dataset, or one of
            the needed splits is empty.
    """
    if store is None:
        if project.config.tasks.dataset is None and not project.has_store():
            return _dataset_of_file(project, None, skip_bad, needs)
        with project.open_store() as opened:
            return project_dataset(project, skip_bad=skip_bad, store=opened, needs=needs)
    if project.config.tasks.dataset is not None:
        return _stored_dataset(project, project.config.tasks.dataset, store, needs), ()
    return _dataset_of_file(project, store, skip_bad, needs)


def _dataset_of_file(
    project: Project, store: Store | None, skip_bad: bool, needs: Sequence[Split]
) -> tuple[Dataset, tuple[str, ...]]:
    tasks = project.config.tasks
    fields = {"id": tasks.id, "input": tasks.input, "expected": tasks.expected}
    file = read_tasks(project.root / tasks.file, fields=fields, skip_bad=skip_bad)
    sentences = (*(f"Skipped: {sentence}" for sentence in file.bad), *file.notes)
    roles = TaskRoles(store, project.identity) if store is not None else None
    name = Path(tasks.file).stem
    complete = set(needs) == set(SPLITS)
    has_shares = "split" in tasks.model_fields_set
    if not has_shares and not file.splits:
        dataset = usual_split(
            file.tasks,
            name=name,
            enough=tasks_needed(
                level(project.config.prove.alpha, ()), USUAL_GAIN, PLANNED_VARIANCE
            ),
            roles=roles.of(file.tasks) if roles else None,
            group_by=tasks.group_by,
            near_duplicates=tasks.near_duplicates,
            complete=complete,
        )
    else:
        fixed_splits: dict[str, Split] | None = None if complete else {}
        if file.splits:
            fixed_splits = {**(roles.of(file.tasks) if roles else {}), **file.splits}
        shares: Mapping[Split, float] = LARGE_FILE_SHARES
        if has_shares:
            own = tasks.split
            shares = {"train": own.train, "val": own.val, "test": own.test}
        dataset = split_tasks(
            file.tasks,
            name=name,
            fractions=shares,
            group_by=tasks.group_by,
            near_duplicates=tasks.near_duplicates,
            fixed=fixed_splits,
        )
        groups = None
        if file.splits and roles and roles.of_learning(file.tasks):
            groups = groups_of(file.tasks, tasks.group_by, tasks.near_duplicates)
        dataset = without_learned(dataset, roles, groups)
    if store is not None:
        dataset, dataset_notes = _current(project, dataset, store, roles)
        sentences = (*sentences, *dataset_notes)
    _check_splits(
        project, dataset, needs, "Add tasks; a task may state its own split: train, val or test."
    )
    return dataset, sentences


def _current(
    project: Project, own: Dataset, store: Store, roles: TaskRoles | None
) -> tuple[Dataset, tuple[str, ...]]:
    """The dataset of the task file, or the newest version that commands have made from it.

    A version is of the file if one that it was made from has the file's tasks. Once the file is
    changed, it counts again, with what was captured since.
    """
    latest = store.datasets.latest(own.name)
    if latest is None or not latest.parent:
        return own, ()
    tasks = {(task.id, task.content()) for task in own.tasks}
    version, related = latest, False
    while version.parent:
        try:
            version = store.datasets.get(version.parent)
        except InputError:  # pruned
            break
        before = {(task.id, task.content()) for task in version.tasks}
        related = related or not tasks.isdisjoint(before)
        if before == tasks:
            latest_name = f"{latest.name}@{latest.version[:8]}"
            note = (
                f"The tasks are {latest_name}, made from {project.config.tasks.file}. "
                f"{latest.reason}"
            )
            return without_learned(latest, roles), (note,)
    if not related:
        return own, ()
    latest_name = f"{latest.name}@{latest.version[:8]}"
    changed, kept = _with_captured(own, latest)
    kept_too = f" except for {counted(kept, 'task')} captured from live traffic" if kept else ""
    return without_learned(changed, roles), (
        f"{project.config.tasks.file} was changed since {latest_name} was made from it, so that "
        f"version is not used{kept_too}. To use it: dataset ="
        f' "{latest.name}" under [tasks].',
    )


def _with_captured(own: Dataset, latest: Dataset) -> tuple[Dataset, int]:
    """The tasks of a file plus those captured for a version of it, and the number captured."""
    ids = {task.id for task in own.tasks}
    inputs = {input_key(task.input) for task in own.tasks}
    captured = [
        task
        for task in latest.tasks
        if task.origin.made == "captured"
        and task.id not in ids
        and input_key(task.input) not in inputs
    ]
    if not captured:
        return own, 0
    merged = msgspec.structs.replace(
        own,
        tasks=(*own.tasks, *captured),
        splits={**own.splits, **{task.id: latest.splits[task.id] for task in captured}},
        reason=f"The task file was changed; {counted(len(captured), 'captured task')} kept.",
    )
    if merged.version == latest.version:
        return latest, len(captured)
    return msgspec.structs.replace(merged, parent=latest.version), len(captured)


def _stored_dataset(project: Project, name: str, store: Store, needs: Sequence[Split]) -> Dataset:
    dataset = store.datasets.named(name)
    dataset = without_learned(dataset, TaskRoles(store, project.identity))
    _check_splits(
        project,
        dataset,
        needs,
        f"Add tasks: ratchet datasets capture {dataset.name}; or split it again: ratchet datasets "
        f"split {dataset.name}.",
    )
    return dataset


def _check_splits(project: Project, dataset: Dataset, needs: Sequence[Split], hint: str) -> None:
    shares = project.config.tasks.split.model_dump()
    for split in needs:
        if shares[split] > 0 and split not in dataset.splits.values():
            raise InputError(
                f"No task of {project.tasks_label} is in the {split} split; it has"
                f" {counted(len(dataset.tasks), 'task')}.",
                hint=hint,
            )


def keep_dataset(project: Project, dataset: Dataset, store: Store, now: float) -> None:
    """Store the dataset of a run, unless the store has it."""
    name = project.config.tasks.dataset
    if name is None or store.datasets.named(name).version != dataset.version:
        store.datasets.put(dataset, now)
