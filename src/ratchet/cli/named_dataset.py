"""Find a dataset by its name: the latest version in the store, or the project's task file."""

from __future__ import annotations

from pathlib import Path

from ratchet.autopilot import Project
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.store import Store
from ratchet.types import Dataset, NotFound


def find_dataset(project: Project, store: Store, name: str) -> Dataset:
    """The dataset of a name, or of NAME@VERSION with the start of a version.

    Raises:
        NotFound: There is none.
        InputError: Several versions begin so.
    """
    try:
        return store.datasets.named(name)
    except NotFound:
        if name != Path(project.config.tasks.file).stem:
            raise
    dataset, _ = project_dataset(project, needs=())
    return dataset


def how_to_use(project: Project, dataset: Dataset) -> str:
    """Sentence on whether the next `ratchet improve` uses a version that a command has made."""
    tasks = project.config.tasks
    current = tasks.dataset if tasks.dataset is not None else Path(tasks.file).stem
    if current == dataset.name:
        return "The next ratchet improve uses it."
    return (
        f'ratchet improve uses {project.tasks_label}. To use this one: dataset = "{dataset.name}"'
        " under [tasks] in ratchet.toml."
    )
