"""`ratchet datasets diff`: what changed between two versions of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ratchet.cli.console import Folder, Json, one_line, out, print_json
from ratchet.cli.dataset_options import DatasetVersionName, task_for_machines, task_line, versioned
from ratchet.cli.keys import StoreUrl, open_store
from ratchet.curate import difference
from ratchet.types import InputError


def diff(
    after: DatasetVersionName,
    before: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME[@VERSION]",
            help="The version to compare with; by default the parent version.",
        ),
    ] = None,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Compare two versions: tasks added, removed, changed, and moved between splits.

    Examples:

      ratchet datasets diff support

      ratchet datasets diff support support@1a2b3c4d
    """
    with open_store(folder, store) as opened:
        new = opened.datasets.named(after)
        if before is None and not new.parent:
            raise InputError(
                f"{versioned(new)} is the first version.",
                hint="Name another version to compare with.",
            )
        old = opened.datasets.get(new.parent) if before is None else opened.datasets.named(before)
    changes = difference(old, new)
    if json:
        print_json(
            {
                "before": {"name": old.name, "version": old.version},
                "after": {"name": new.name, "version": new.version, "reason": new.reason},
                "added": [task_for_machines(task, new.splits[task.id]) for task in changes.added],
                "removed": [
                    task_for_machines(task, old.splits[task.id]) for task in changes.removed
                ],
                "changed": [
                    {
                        "id": change.after.id,
                        "fields": change.fields,
                        "before": task_for_machines(change.before, change.splits[0]),
                        "after": task_for_machines(change.after, change.splits[1]),
                    }
                    for change in changes.changed
                ],
                "same": changes.same,
            }
        )
        return
    out.print(f"{versioned(old)} → {versioned(new)}  {new.reason}", markup=False)
    for task in changes.added:
        out.print(
            f"+ {task.id} {new.splits[task.id]}: {task_line(task)}", style="green", markup=False
        )
    for task in changes.removed:
        out.print(
            f"- {task.id} {old.splits[task.id]}: {task_line(task)}", style="red", markup=False
        )
    for change in changes.changed:
        out.print(f"~ {change.after.id}: {one_line(change.after.input, 60)}", markup=False)
        for field in change.fields:
            sides = (
                change.splits
                if field == "split"
                else (getattr(change.before, field), getattr(change.after, field))
            )
            before_text, after_text = (
                "open" if side is None else one_line(side, 60) for side in sides
            )
            out.print(f"    {field}: {before_text} → {after_text}", markup=False)
    out.print(
        f"{len(changes.added)} added, {len(changes.removed)} removed,"
        f" {len(changes.changed)} changed, {changes.same} the same"
    )
