"""Find a dataset by its name: the latest version in the store, or the project's task file."""

from __future__ import annotations

from pathlib import Path

from ratchet.autopilot import Project
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
    dataset, _ = project.dataset(needs=())
    return dataset
