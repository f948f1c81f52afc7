"""`ratchet releases` and `ratchet rollback`."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from ratchet.autopilot.pull_requests import refresh_releases, revert_release
from ratchet.cli.console import Folder, Json, out, print_json, project_in, short, table
from ratchet.cli.errors import err
from ratchet.cli.selection import release_of
from ratchet.ship import deactivate
from ratchet.types import Release

AT_RESTART = "Prompts that are read at import take effect when the agent restarts."
"""Printed for releases at run time."""


def releases(folder: Folder = Path("."), json: Json = False) -> None:
    """List the releases and their state in the repository and on the forge."""
    project = project_in(folder)
    with project.open_store() as store:
        history, problems = refresh_releases(project, store)
    for problem in problems:
        err.print(
            f"Pull requests could not be read, so their last known state is shown: {problem}",
            markup=False,
        )
    if json:
        print_json({"releases": history})
        return
    if not history:
        out.print("There is no release yet. Create one: ratchet improve")
        return
    rows = table("release", "made", "candidate", "state", "where", "rollback")
    for release in history:
        created = datetime.fromtimestamp(release.created_at).astimezone()
        rows.add_row(
            short(release.id),
            f"{created:%Y-%m-%d %H:%M}",
            short(release.candidate_id),
            release.state.replace("_", " ") + (", not proved" if release.draft else ""),
            _where(release),
            release.revert.url if release.revert else release.rollback,
        )
    out.print(rows)
    if project.config.imports_per_candidate and any(release.agent for release in history):
        out.print(AT_RESTART)


def rollback(
    release: Annotated[
        str | None, typer.Argument(help="Start of the release's id; by default the newest.")
    ] = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Undo a release: delete its branch, or, if it was merged, make a branch that reverts it.

    An open pull request is closed with a comment. If it was merged, the branch that reverts it is
    pushed and its own pull request opened.

    Nothing is lost: the commit's hash is printed, so that the branch can be made again from it. A
    release at the gateway is deactivated, and what was active before is active again.

    Examples:

      ratchet rollback

      ratchet rollback 1a2b3c4d
    """
    project = project_in(folder)
    with project.open_store() as store:
        history, problems = refresh_releases(project, store)
        for problem in problems:
            err.print(
                f"Pull requests could not be read, so their last known state is shown: {problem}",
                markup=False,
            )
        standing = [made for made in history if made.state != "rolled_back"]
        selected = release_of((not release and standing) or history, release, "roll back")
        if selected.agent:
            undone = deactivate(store, selected, time.time())
            store.releases.put(undone)
        else:
            undone = revert_release(project, store, selected)
    if json:
        print_json(undone)
        return
    out.print(f"[bold green]Rolled back[/] release {short(undone.id)}: {undone.rollback}")
    if undone.agent:
        out.print(f"Servers apply this to the calls of {undone.agent} within 2 seconds.")
    elif undone.revert is not None:
        out.print(f"Merge the pull request that reverts it: {undone.revert.url}")
    elif not undone.rollback.startswith("ratchet/"):
        out.print(f"Recreate the branch with: git branch {undone.branch} {undone.commit}")
    else:
        out.print(f"Merge the branch that reverts it with: git merge {undone.rollback}")


def _where(release: Release) -> str:
    if release.agent:
        return f"at run time: {release.agent}"
    return release.request.url if release.request else release.branch
