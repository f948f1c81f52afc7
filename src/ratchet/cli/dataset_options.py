"""Arguments and output that the commands of `ratchet datasets` share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet.autopilot import Project
from ratchet.cli.console import one_line, short
from ratchet.curate import leaking_groups
from ratchet.observe.project_paths import folder_with_config
from ratchet.store import Store
from ratchet.types import SPLITS, Dataset, InputError, NotFound, Split, Task
from ratchet.types.wording import counted

DatasetName = Annotated[str, typer.Argument(metavar="NAME", help="The dataset's name.")]
DatasetVersionName = Annotated[
    str,
    typer.Argument(
        metavar="NAME[@VERSION]", help="The dataset, or NAME@ with the first digits of a version."
    ),
]
Shares = Annotated[
    str | None,
    typer.Option(
        "--split",
        metavar="TRAIN,VAL,TEST",
        help="Shares of new tasks; by default those of ratchet.toml, or 0.4,0.2,0.4.",
    ),
]
GroupBy = Annotated[
    str | None,
    typer.Option(
        help="Keep tasks with the same value in one split: conversation, user, expected or "
        "metadata.KEY.",
    ),
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")


def check_dataset_name(name: str) -> None:
    """Check the name of a dataset to be written.

    Raises:
        InputError: It is not a name.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not a valid dataset name.",
            hint="Use letters, digits, dots, dashes, underscores and slashes, without @VERSION: "
            "changes go to the latest version.",
        )


def dataset_or_new(store: Store, name: str) -> Dataset:
    """The latest version of a dataset; empty if there is none."""
    return store.datasets.latest(name) or Dataset(name=name, tasks=(), splits={})


def fractions_of(shares: str | None, folder: Path) -> dict[Split, float]:
    """Shares of the splits: the requested ones, or the project's.

    Raises:
        InputError: They are not three numbers.
    """
    if shares is not None:
        try:
            train, val, test = (float(share) for share in shares.split(","))
        except ValueError:
            raise InputError(
                f"{shares!r} is not a list of three shares.",
                hint="Write for example --split 0.4,0.2,0.4.",
            ) from None
        return {"train": train, "val": val, "test": test}
    if folder_with_config(folder) is not None:
        split = Project.find(folder).config.tasks.split
        return {"train": split.train, "val": split.val, "test": split.test}
    return {"train": 0.4, "val": 0.2, "test": 0.4}


def versioned(dataset: Dataset) -> str:
    """NAME@VERSION, as commands take it."""
    return f"{dataset.name}@{short(dataset.version)}"


def split_counts(dataset: Dataset) -> dict[str, int]:
    """Number of tasks by split."""
    return {split: len(dataset.split(split)) for split in SPLITS}


def counts_text(counts: dict[str, int]) -> str:
    """Numbers of tasks by split, as text."""
    return " / ".join(str(counts.get(split, 0)) for split in SPLITS)


def task_line(task: Task, width: int = 60) -> str:
    """A task as one line of text."""
    expected = "open" if task.expected is None else one_line(task.expected, width // 2)
    return f"{one_line(task.input, width)} → {expected}"


def task_for_machines(task: Task, split: str) -> dict[str, Any]:
    """A task with its split, for JSON."""
    return {
        "id": task.id,
        "input": task.input,
        "expected": task.expected,
        "metadata": task.metadata,
        "split": split,
        "origin": task.origin,
    }


def leak_sentence(dataset: Dataset) -> str:
    """A sentence that says which tasks leak between splits; empty if none do."""
    leaking = leaking_groups(dataset)
    if not leaking:
        return ""
    ids = ", ".join(f"{task.id} ({dataset.splits[task.id]})" for task in leaking[0][:4])
    several = (
        f"{counted(len(leaking), 'group')} of tasks" if len(leaking) > 1 else "A group of tasks"
    )
    verb, spread = ("say", "are") if len(leaking) > 1 else ("says", "is")
    return (
        f"{several} that {verb} nearly the same {spread} spread over several splits, such as {ids}:"
        " tasks learned from in one split may be tested on in another. Move them with: ratchet "
        f"datasets split {dataset.name}"
    )


def require_dataset(store: Store, name: str) -> Dataset:
    """The latest version of a dataset.

    Raises:
        NotFound: There is no dataset of this name.
    """
    dataset = store.datasets.latest(name)
    if dataset is None:
        raise NotFound(
            f"The store has no dataset {name!r}.", hint="List the datasets: ratchet datasets list."
        )
    return dataset
