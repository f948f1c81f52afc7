"""`ratchet datasets list`: the datasets of a store."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from rich.text import Text

from ratchet.cli.console import Folder, Json, out, print_json, short, table
from ratchet.cli.dataset_options import counts_text
from ratchet.cli.keys import StoreUrl, open_store


def list_(folder: Folder = Path("."), store: StoreUrl = None, json: Json = False) -> None:
    """List the datasets, each with its latest version.

    Examples:

      ratchet datasets list

      ratchet datasets list --json
    """
    with open_store(folder, store) as opened:
        datasets = opened.datasets.list()
    if json:
        print_json({"datasets": datasets})
        return
    if not datasets:
        out.print("There is no dataset yet. Create one: ratchet datasets capture NAME")
        return
    rows = table(
        *("name", "version", "versions", "tasks", "train / val / test", "changed", "reason"),
        right=("versions", "tasks"),
    )
    for dataset in datasets:
        at = datetime.fromtimestamp(dataset.put_at).astimezone()
        rows.add_row(
            dataset.name,
            short(dataset.version),
            str(dataset.versions),
            str(dataset.tasks),
            counts_text(dataset.splits),
            f"{at:%Y-%m-%d %H:%M}",
            Text(dataset.reason),
        )
    out.print(rows)
