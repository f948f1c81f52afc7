"""`ratchet prune`: delete data past its retention, as a server does hourly."""

from __future__ import annotations

from pathlib import Path

from ratchet.cli.console import Folder, Json, out, print_json, project_in, wait_for
from ratchet.server.retention import Pruner, Retention
from ratchet.types.wording import counted


def prune(folder: Folder = Path("."), json: Json = False) -> None:
    """Delete data older than retention in ratchet.toml allows, unless it is still needed.

    Resumable runs, experiments, releases and active candidates protect the records they refer to.

    Examples:

      ratchet prune
    """
    project = project_in(folder)
    retention = Retention(**project.config.retention.model_dump())
    with project.open_store() as store:
        deleted = wait_for(_sweep(Pruner(store, retention)))
    if json:
        print_json({"deleted": deleted})
        return
    for noun, rows in deleted.items():
        if rows:
            out.print(f"{noun}: {counted(rows, 'row')} deleted")
    if not any(deleted.values()):
        out.print(
            "Nothing was deleted: no data is older than \\[retention] in ratchet.toml allows, or "
            "all of it is still needed."
        )


async def _sweep(pruner: Pruner) -> dict[str, int]:
    try:
        return await pruner.sweep()
    finally:
        await pruner.close()
