"""Resolve command-line arguments: tasks by split, candidates by the start of their id."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ratchet.autopilot import Project
from ratchet.run.program import AnyAgent
from ratchet.store import Store
from ratchet.types import SPLITS, Candidate, InputError, Task


def select_tasks(
    project: Project,
    split: str,
    *,
    limit: int | None,
    skip_bad: bool,
    say: Callable[[str], None],
) -> list[Task]:
    """The tasks of a split, or of all.

    Raises:
        InputError: There is no such split.
    """
    dataset, bad = project.dataset(skip_bad=skip_bad)
    for sentence in bad:
        say(f"Skipped: {sentence}")
    for name in SPLITS:
        if split == name:
            return list(dataset.split(name)[:limit])
    if split == "all":
        return list(dataset.tasks[:limit])
    raise InputError(f"There is no split {split!r}; it is train, val, test or all.")


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
    if name == "best":
        run = store.runs.latest()
        if run is None or not run.best_id:
            raise InputError("No run has found a best candidate yet.", hint="ratchet improve")
        return store.candidates.get(run.best_id)
    found = store.candidates.find(name)
    if len(found) != 1:
        how = "no candidate" if not found else f"{len(found)} candidates"
        raise InputError(
            f"{name!r} matches {how}.", hint="Use source, best, or more digits of a candidate's id."
        )
    return found[0]
