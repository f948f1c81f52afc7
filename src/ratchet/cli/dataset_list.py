"""`ratchet datasets list`: the datasets of a store."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from rich.text import Text

from ratchet.cli.console import Folder, Json, out, print_json, print_table, short, table
from ratchet.cli.dataset_options import counts_text
from ratchet.cli.keys import StoreUrl, open_store


def list_(folder: Folder = Path("."), store: StoreUrl = None, json: Json = False) -> None:
    """List the datasets, each with its latest version.

    Examples:

      ratchet datasets list

      ratchet datasets list --json
    """
    with open_store(folder, store) as opened:
        found = opened.datasets.list()
    if json:
        print_json({"datasets": found})
        return
    if not found:
        out.print("No dataset yet. Make one: ratchet datasets capture NAME")
        return
    shown = table(
        *("name", "version", "versions", "tasks", "train / val / test", "changed", "reason"),
        right=("versions", "tasks"),
    )
    for one in found:
        at = datetime.fromtimestamp(one.put_at).astimezone()
        shown.add_row(
            one.name,
            short(one.version),
            str(one.versions),
            str(one.tasks),
            counts_text(one.splits),
            f"{at:%Y-%m-%d %H:%M}",
            Text(one.reason),
        )
    print_table(shown)
