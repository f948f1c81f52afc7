"""Resolve command-line arguments: tasks by split, candidates by the start of their id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ratchet.autopilot import Project
from ratchet.autopilot.models_in_calls import adopt_models
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.run.program import AnyAgent
from ratchet.store import Store
from ratchet.types import SPLITS, Candidate, InputError, Release, Task
from ratchet.types.wording import counted

FEWEST = 5
"""Val tasks below which all are run by default: a mean of one or two would say nothing."""


class SelectedTasks(NamedTuple):
    """Tasks to run."""

    split: str
    """train, val, test or all."""
    tasks: list[Task]


def select_tasks(
    project: Project,
    split: str | None,
    *,
    limit: int | None,
    skip_bad: bool,
    say: Callable[[str], None],
) -> SelectedTasks:
    """The tasks of a split, or of all splits; by default of val, or of all if val has very few.

    Raises:
        InputError: There is no such split, or it is empty.
    """
    if split not in (None, *SPLITS, "all"):
        raise InputError(f"There is no split {split!r}; use train, val, test or all.")
    dataset, sentences = project_dataset(project, skip_bad=skip_bad, needs=())
    for sentence in sentences:
        say(sentence)
    split = split or ("val" if len(dataset.split("val")) >= FEWEST else "all")
    wanted = [name for name in SPLITS if split in (name, "all")]
    tasks = [task for task in dataset.tasks if dataset.splits[task.id] in wanted]
    if not tasks:
        raise InputError(
            f"No task of {project.tasks_label} is in the {split} split; it has"
            f" {counted(len(dataset.tasks), 'task')}.",
            hint="Run on all tasks with --split all, or add tasks. A task may state its own "
            "split: train, val or test.",
        )
    tasks = tasks[:limit]
    if len(tasks) < len(dataset.tasks) and limit is None:
        say(
            f"The {split} split has {len(tasks)} of {counted(len(dataset.tasks), 'task')}; "
            "--split all runs all of them."
        )
    return SelectedTasks(split, tasks)


def select_candidates(
    project: Project, store: Store, agent: AnyAgent, names: Sequence[str]
) -> list[Candidate]:
    """Resolve candidates named `source`, `best` (of the newest run) or by the start of an id.

    Raises:
        InputError: A name matches none, or several.
    """
    return [select_candidate(project, store, agent, name) for name in names]


def select_candidate(project: Project, store: Store, agent: AnyAgent, name: str) -> Candidate:
    """Resolve one candidate; see `select_candidates`."""
    if name == "source":
        return project.source_candidate(agent)
    candidate = _stored_candidate(store, name)
    adopt_models(store, agent, candidate)
    return candidate


def _stored_candidate(store: Store, name: str) -> Candidate:
    if name == "best":
        run = store.runs.latest()
        if run is None or not run.best_id:
            raise InputError("No run has found a best candidate yet.", hint="ratchet improve")
        return store.candidates.get(run.best_id)
    matches = store.candidates.find(name)
    if len(matches) != 1:
        how = "no candidate" if not matches else counted(len(matches), "candidate")
        raise InputError(
            f"{name!r} matches {how}.", hint="Use source, best, or more digits of a candidate's id."
        )
    return matches[0]


def release_of(releases: Sequence[Release], prefix: str | None, to: str) -> Release:
    """The release whose id begins with the prefix; without a prefix, the newest.

    Args:
        releases: All releases, newest first.
        prefix: Start of an id.
        to: What for, in a word.

    Raises:
        InputError: It matches none, or several.
    """
    if prefix is None:
        if not releases:
            raise InputError(f"There is no release to {to}.", hint="Create one: ratchet improve.")
        return releases[0]
    matching = [release for release in releases if release.id.startswith(prefix)]
    if len(matching) != 1:
        how = "no release" if not matching else f"{len(matching)} releases"
        raise InputError(f"{prefix!r} matches {how}.", hint="List them: ratchet releases.")
    return matching[0]
