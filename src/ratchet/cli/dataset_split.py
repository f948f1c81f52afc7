"""`ratchet datasets split`: split a dataset again."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ratchet.cli.console import Folder, Json, out, print_json
from ratchet.cli.dataset_options import (
    DatasetName,
    GroupBy,
    Shares,
    check_dataset_name,
    counts_text,
    fractions_of,
    require_dataset,
    split_counts,
    versioned,
)
from ratchet.cli.keys import StoreUrl, open_store
from ratchet.curate import difference, split_tasks
from ratchet.types.wording import counted


def split(
    name: DatasetName,
    shares: Shares = None,
    group_by: GroupBy = None,
    near_duplicates: Annotated[
        bool, typer.Option(help="Keep nearly identical inputs in one split.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show which tasks would move; store nothing.")
    ] = False,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Split a dataset again, as a new version, so that nothing leaks between splits.

    Other commands leave tasks in their splits. This one moves them: do not prove a candidate on
    test tasks that were train tasks when it was learned.

    Examples:

      ratchet datasets split support --group-by user

      ratchet datasets split support --split 0.3,0.2,0.5 --dry-run
    """
    check_dataset_name(name)
    fractions = fractions_of(shares, folder)
    with open_store(folder, store) as opened:
        before = require_dataset(opened, name)
        after = msgspec.structs.replace(
            split_tasks(
                before.tasks,
                name=name,
                fractions=fractions,
                group_by=group_by,
                near_duplicates=near_duplicates,
            ),
            provenance=before.provenance,
            parent=before.version,
            reason="split anew" + (f" by {group_by}" if group_by else ""),
        )
        moved = difference(before, after).changed
        if moved and not dry_run:
            opened.datasets.put(after, time.time(), after=before)
    moves = Counter(" → ".join(change.splits) for change in moved)
    if json:
        print_json(
            {
                "dry_run": dry_run,
                "name": name,
                "version": after.version,
                "moved": len(moved),
                "moves": dict(moves),
                "splits": split_counts(after),
            }
        )
        return
    for move, number in sorted(moves.items()):
        out.print(f"  {number} {move}")
    verb = "would move" if dry_run else "moved"
    out.print(
        f"{versioned(after)}: {counted(len(moved), 'task')} {verb}, train / val / test"
        f" {counts_text(split_counts(after))}",
        markup=False,
    )
