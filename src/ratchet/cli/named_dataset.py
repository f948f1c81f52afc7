"""Find a dataset by its name: the latest version in the store, or the project's task file."""

from __future__ import annotations

from pathlib import Path

from ratchet.autopilot import Project
from ratchet.store import Store
from ratchet.types import Dataset, NotFound


def find_dataset(project: Project, store: Store, name: str) -> Dataset:
    """The dataset of a name, or of NAME@VERSION.

    Raises:
        NotFound: There is none.
    """
    base, _, version = name.partition("@")
    if version:
        found = store.datasets.get(version)
        if found.name == base:
            return found
        raise NotFound(f"Version {version!r} belongs to {found.name!r}, not to {base!r}.")
    latest = store.datasets.latest(base)
    if latest is not None:
        return latest
    if base == Path(project.config.tasks.file).stem:
        dataset, _ = project.dataset()
        return dataset
    raise NotFound(
        f"There is no dataset named {base!r}.",
        hint="ratchet improve stores the one of the task file under the file's name.",
    )
