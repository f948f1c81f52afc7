"""`ratchet datasets import`: read tasks from a file into a dataset."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ratchet.cli.console import Folder, Json, display_path, out, print_json
from ratchet.cli.dataset_options import (
    DatasetName,
    GroupBy,
    Shares,
    check_dataset_name,
    counts_text,
    dataset_or_new,
    fractions_of,
    leak_sentence,
    split_counts,
    versioned,
)
from ratchet.cli.keys import StoreUrl, open_store
from ratchet.curate import difference
from ratchet.curate.files import read_dataset_file
from ratchet.curate.merging import merged
from ratchet.types import InputError
from ratchet.types.wording import counted

_SHOWN = 20


def import_(
    name: DatasetName,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to read, or a folder of files.")
    ],
    format: Annotated[
        str | None,
        typer.Option(
            help="jsonl, json, csv, parquet or huggingface; by default from the file's extension."
        ),
    ] = None,
    input: Annotated[
        str, typer.Option(metavar="KEY", help="Key or column of the input.")
    ] = "input",
    expected: Annotated[
        str, typer.Option(metavar="KEY", help="Key or column of the expected answer.")
    ] = "expected",
    id: Annotated[str, typer.Option(metavar="KEY", help="Key or column of the id.")] = "id",
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove the tasks that are not in the file.")
    ] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip invalid records instead of stopping.")
    ] = False,
    shares: Shares = None,
    group_by: GroupBy = None,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Import tasks from a file, as a new version of a dataset.

    A task with the id of one in the dataset replaces it. Splits and origins in the file are kept;
    other tasks stay in their splits, and new ones join the split of the tasks they resemble. Bad
    records are named with their line, and nothing is imported unless --skip-bad is given.

    Examples:

      ratchet datasets import support tasks.jsonl

      ratchet datasets import faq questions.csv --input question --expected answer

      ratchet datasets import squad ./squad --format huggingface --input question
    """
    check_dataset_name(name)
    now = time.time()
    fields = {"input": input, "expected": expected, "id": id}
    read = read_dataset_file(file, format, fields=fields, at=now)
    if read.bad and not skip_bad:
        more = f" ({counted(len(read.bad) - 1, 'more bad record')}.)" if len(read.bad) > 1 else ""
        raise InputError(
            f"{read.bad[0]}{more} Nothing was imported.",
            hint="Correct the file, skip bad records with --skip-bad, or name other keys or "
            "columns with --input and --expected.",
        )
    if not read.tasks:
        raise InputError(
            f"{file} contains no tasks." + (f" The first record: {read.bad[0]}" if read.bad else "")
        )
    with open_store(folder, store) as opened:
        before = dataset_or_new(opened, name)
        after = merged(
            before,
            read.tasks,
            splits=read.splits,
            fractions=fractions_of(shares, folder),
            group_by=group_by,
            reason=f"{counted(len(read.tasks), 'task')} imported from {file.name}",
            replace=replace,
        )
        changed = after.version != before.version or not before.tasks
        if changed:
            opened.datasets.put(after, now, after=before)
    changes = difference(before, after)
    leak = leak_sentence(after)
    if json:
        print_json(
            {
                "name": name,
                "version": after.version if changed else before.version,
                "added": len(changes.added),
                "changed": len(changes.changed),
                "removed": len(changes.removed),
                "same": changes.same,
                "splits": split_counts(after),
                "bad": read.bad,
                "notes": read.notes,
                "leak": leak,
            }
        )
        return
    for note in read.notes:
        out.print(note, style="yellow", markup=False)
    for sentence in read.bad[:_SHOWN]:
        out.print(f"Skipped: {sentence}", style="yellow", markup=False)
    if len(read.bad) > _SHOWN:
        out.print(f"Skipped {counted(len(read.bad) - _SHOWN, 'more record')}.", style="yellow")
    out.print(
        f"{display_path(file)}: {counted(len(changes.added), 'task')} added,"
        f" {len(changes.changed)} changed, {len(changes.removed)} removed, {changes.same} the same",
        markup=False,
    )
    out.print(
        f"{versioned(after)}: {counted(len(after.tasks), 'task')}, train / val / test"
        f" {counts_text(split_counts(after))}",
        markup=False,
    )
    if leak:
        out.print(leak, style="yellow", markup=False)
