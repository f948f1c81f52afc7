"""`ratchet init --undo`: undoes what `ratchet init` wrote."""

from __future__ import annotations

from pathlib import Path

from ratchet.cli.console import out, print_json
from ratchet.cli.init_files_before import WRITTEN, stash_entry
from ratchet.cli.init_page import left_by_run
from ratchet.wire.applying import undo


def undo_wiring(root: Path, *, dry_run: bool, json: bool) -> None:
    """Undo a wiring, and say what happened to each file.

    Raises:
        InputError: Nothing is wired here.
    """
    undone = undo(root, dry_run=dry_run)
    if json:
        print_json(undone)
        return
    removed, restored, deleted = (
        f"Would have {word}" if dry_run else word.capitalize()
        for word in ("removed", "restored", "deleted")
    )
    for done, paths in ((removed, undone.removed), (restored, undone.restored)):
        if paths:
            out.print(f"{done}: {', '.join(paths)}.", markup=False)
    for file in undone.kept:
        out.print(f"Kept: {file.path}, {file.why}.", markup=False)
    if undone.kept and undone.began_at and not (undone.deleted_branch or dry_run):
        out.print(
            f"Your edits stay on {undone.branch}. {undone.began_at} never had the wiring: git"
            f" switch {undone.began_at}",
            markup=False,
        )
    for sentence in left_by_run(root, undone.traces):
        out.print(sentence, markup=False)
    if entry := stash_entry(root):
        out.print(
            "The recorded run's changes to tracked files are still in git's stash: git stash pop"
            f" {entry}",
            markup=False,
        )
    if (root / WRITTEN).is_dir():
        out.print(
            f"What the recorded run wrote to files that were restored is still in {WRITTEN}.",
            markup=False,
        )
    if undone.commit:
        out.print(f"Committed: {undone.commit[:8]} on {undone.branch}.", markup=False)
    if not dry_run and (root / ".ratchet").is_dir():
        out.print(
            "Kept .ratchet/, which holds the recording and the runs. To delete it: rm -r .ratchet",
            markup=False,
        )
    if undone.deleted_branch:
        out.print(f"{deleted} the branch {undone.deleted_branch}.", markup=False)
    if undone.edits_on:
        out.print(
            f"Your edits stay on the branch {undone.edits_on}. To delete them: git"
            f" branch -D {undone.edits_on}",
            markup=False,
        )
    if undone.branch and not dry_run:
        out.print(f"You are on {undone.branch}.", markup=False)
