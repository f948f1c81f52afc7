"""`ratchet datasets show`: the tasks of a dataset, and its versions."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ratchet.cli.console import (
    Folder,
    Json,
    display_path,
    one_line,
    out,
    print_json,
    short,
    table,
)
from ratchet.cli.dataset_options import (
    DatasetVersionName,
    counts_text,
    leak_sentence,
    split_counts,
    task_for_machines,
    versioned,
)
from ratchet.cli.keys import StoreUrl, open_store
from ratchet.store import Store
from ratchet.types import Dataset, InputError, NotFound
from ratchet.types.wording import counted


def show(
    name: DatasetVersionName,
    task: Annotated[str | None, typer.Option(help="Show this task in full.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Write a map of its inputs beside live traffic to this file, .png or .html."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Number of tasks.")] = 20,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Show a dataset: its versions, where its tasks come from, and the first tasks.

    Examples:

      ratchet datasets show support

      ratchet datasets show support@1a2b3c4d --limit 100

      ratchet datasets show support --plot coverage.html

      ratchet datasets show support --task 9f31c2aa01de --json
    """
    with open_store(folder, store) as opened:
        dataset = opened.datasets.named(name)
        history = opened.datasets.history(dataset.name)
        if plot is not None:
            _plot(opened, dataset, plot)
    if task is not None:
        selected = next(
            (dataset_task for dataset_task in dataset.tasks if dataset_task.id == task), None
        )
        if selected is None:
            raise NotFound(f"The dataset {versioned(dataset)} has no task {task!r}.")
        print_json(task_for_machines(selected, dataset.splits[selected.id]))
        return
    origins = Counter(
        f"{dataset_task.origin.made}: {dataset_task.origin.by or 'by hand'}"
        for dataset_task in dataset.tasks
    )
    leak = leak_sentence(dataset)
    unanswered = sum(dataset_task.expected is None for dataset_task in dataset.tasks)
    if json:
        print_json(
            {
                "name": dataset.name,
                "version": dataset.version,
                "parent": dataset.parent,
                "reason": dataset.reason,
                "splits": split_counts(dataset),
                "origins": dict(origins.most_common()),
                "without_expected": unanswered,
                "leak": leak,
                "versions": history,
                "tasks": [
                    task_for_machines(dataset_task, dataset.splits[dataset_task.id])
                    for dataset_task in dataset.tasks[:limit]
                ],
            }
        )
        return
    out.print(
        f"{versioned(dataset)}: {counted(len(dataset.tasks), 'task')}, train / val / test"
        f" {counts_text(split_counts(dataset))}, {unanswered} without an expected answer",
        markup=False,
    )
    if leak:
        out.print(leak, style="yellow", markup=False)
    for origin, number in origins.most_common():
        out.print(f"  {number} {origin}", markup=False)
    rows = table("task", "split", "input", "expected")
    for dataset_task in dataset.tasks[:limit]:
        expected = "" if dataset_task.expected is None else one_line(dataset_task.expected, 40)
        rows.add_row(
            Text(dataset_task.id),
            dataset.splits[dataset_task.id],
            Text(one_line(dataset_task.input, 60)),
            Text(expected),
        )
    if limit:
        out.print(rows)
    if len(dataset.tasks) > limit > 0:
        out.print(f"and {len(dataset.tasks) - limit} more; show them with --limit.")
    versions = table("version", "tasks", "stored", "reason", right=("tasks",))
    for stored in history[:10]:
        at = datetime.fromtimestamp(stored.put_at).astimezone()
        versions.add_row(
            short(stored.version), str(stored.tasks), f"{at:%Y-%m-%d %H:%M}", Text(stored.reason)
        )
    out.print(versions)
    if plot is not None:
        out.print(f"Plot: {display_path(plot)}", markup=False)


def _plot(store: Store, dataset: Dataset, path: Path) -> None:
    from ratchet.cli.coverage_plot import plot_coverage
    from ratchet.curate.refinement import live_inputs
    from ratchet.curate.refinement.coverage import MIN_LIVE_INPUTS, measure_coverage

    live = live_inputs(store)
    coverage = measure_coverage(live, [task.input for task in dataset.tasks])
    if coverage is None:
        raise InputError(
            f"There are {counted(len(live), 'live input')}, too few for a map;"
            f" {MIN_LIVE_INPUTS} are needed.",
            hint="To record live inputs, call ratchet.init in the agent or use the gateway.",
        )
    plot_coverage(coverage, dataset.name, path)
