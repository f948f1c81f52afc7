"""`ratchet releases` and `ratchet rollback`."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from ratchet.autopilot import Project
from ratchet.autopilot.code_sandbox import release_tests
from ratchet.cli.console import Folder, Json, out, print_json, project_in, short, table
from ratchet.ship import deactivate, refresh, refresh_active
from ratchet.ship import rollback as undo
from ratchet.store import Store
from ratchet.types import InputError, Release


def releases(folder: Folder = Path("."), json: Json = False) -> None:
    """List the releases and their state in the repository."""
    project = project_in(folder)
    with project.open_store() as store:
        found = _refreshed(project, store)
    if json:
        print_json({"releases": found})
        return
    if not found:
        out.print("No release yet. Create one: ratchet improve")
        return
    rows = table("release", "made", "candidate", "state", "where", "rollback")
    for release in found:
        made = datetime.fromtimestamp(release.created_at).astimezone()
        rows.add_row(
            short(release.id),
            f"{made:%Y-%m-%d %H:%M}",
            short(release.candidate_id),
            release.state.replace("_", " "),
            release.branch or f"gateway: {release.agent}",
            release.rollback,
        )
    out.print(rows)


def rollback(
    release: Annotated[
        str | None, typer.Argument(help="Start of the release's id; by default the newest.")
    ] = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Undo a release: delete its branch, or make a branch that reverts it once it is merged.

    Nothing is lost: the commit's hash is printed, so that the branch can be made again from it. A
    release at the gateway is deactivated, and what was active before is active again.

    Examples:

      ratchet rollback

      ratchet rollback 1a2b3c4d
    """
    project = project_in(folder)
    with project.open_store() as store:
        selected = _select(_refreshed(project, store), release)
        if selected.agent:
            undone = deactivate(store, selected, time.time())
        else:
            undone = undo(selected, project.root, time.time(), tests=release_tests(project))
        store.releases.put(undone)
    if json:
        print_json(undone)
        return
    out.print(f"[bold green]Rolled back[/] release {short(undone.id)}: {undone.rollback}")
    if undone.agent:
        out.print(f"Servers apply it to the calls of {undone.agent} within 2 seconds.")
    elif not undone.rollback.startswith("ratchet/"):
        out.print(f"Recreate the branch with: git branch {undone.branch} {undone.commit}")
    else:
        out.print(f"Merge the reverting branch with: git merge {undone.rollback}")


def _refreshed(project: Project, store: Store) -> list[Release]:
    found = store.releases.list(1000)
    for number, release in enumerate(found):
        at_gateway = bool(release.agent)
        now = refresh_active(store, release) if at_gateway else refresh(release, project.root)
        if now != release:
            store.releases.put(now)
            found[number] = now
    return found


def _select(found: list[Release], prefix: str | None) -> Release:
    if prefix is None:
        if not found:
            raise InputError("There is no release to roll back.")
        return found[0]
    matching = [release for release in found if release.id.startswith(prefix)]
    if len(matching) != 1:
        how = "no release" if not matching else f"{len(matching)} releases"
        raise InputError(f"{prefix!r} matches {how}.", hint="List them: ratchet releases.")
    return matching[0]
