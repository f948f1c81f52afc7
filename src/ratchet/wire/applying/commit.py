"""Writes a plan as one commit on a branch of its own.

The commit is made from git's objects alone: index, work tree and stashes stay as they are, no hook
runs, and the branch appears in one step, so that a kill leaves nothing or the whole commit.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from ratchet.ship import Repository
from ratchet.ship.repository import Blob
from ratchet.types import InputError, ShipError
from ratchet.wire.applying.plan import Plan, PlannedFile, check_unchanged, read
from ratchet.wire.applying.record import WiredFile, message_of
from ratchet.wire.applying.stored import write

BRANCH = "ratchet/init"


class Committed(msgspec.Struct, frozen=True):
    """A commit that was made."""

    branch: str
    commit: str
    """Full hash."""
    switched: bool
    """Whether the work tree is now on the branch."""
    why_not: str = ""
    """Why the work tree is not on it."""
    ignored: tuple[str, ...] = ()
    """Files that git ignores: written, but not committed."""


def commit(plan: Plan, branch: str, message: str, *, switch: bool = True) -> Committed:
    """Commit a plan to a new branch. Files that git ignores are written but not committed.

    Args:
        plan: What is written.
        branch: Name of the new branch.
        message: Of the commit; what was written is listed at its end.
        switch: Check the branch out.

    Raises:
        InputError: There is nothing to write, or a file changed since the plan was made.
        ShipError: Not a git repository, or a submodule; a merge or the like is under way; a file
            of the plan has uncommitted changes; or the branch exists.
    """
    if not plan.files:
        raise InputError("There is nothing to write: the plan is empty.")
    check_unchanged(plan)
    repository = check_branch(plan.root, branch)
    paths = {repository.prefix + file.path: file.path for file in plan.files}
    ignored = [paths[path] for path in repository.ignored(list(paths))]
    files = [file for file in plan.files if file.path not in ignored]
    if not files:
        raise InputError(
            f"git ignores every file to be committed: {', '.join(ignored)}.",
            hint="Write it without a commit: --no-git",
        )
    head = repository.head()
    wired, blobs = [], {}
    for file in files:
        old = _committed(repository, plan, head, file)
        full_path = repository.prefix + file.path
        blob = Blob(old.mode if old else "100644", repository.store_blob(file.after, full_path))
        blobs[full_path] = blob
        wired.append(WiredFile(file.path, old.hash if old else "", blob.hash))
    folder = repository.prefix.rstrip("/") or "."
    text = message_of(message, folder, wired, plan.traces)
    new_commit = repository.store_commit(head, blobs, text, time.time())
    stray = set(repository.changed_paths(head, new_commit)) - set(blobs)
    if stray:
        raise ShipError(f"The commit would also change {', '.join(sorted(stray))}.")
    if not repository.create_branch(branch, new_commit):
        raise _exists(branch)
    origin = repository.head_branch()
    repository.text("config", origin_key(branch), f"refs/heads/{origin}" if origin else head)
    if ignored:
        write(Plan(plan.root, tuple(file for file in plan.files if file.path in ignored)))
    refused = repository.switch(branch) if switch else "it was not requested"
    why_not = f"{refused.strip().rstrip('.')}. Later: git switch {branch}" if refused else ""
    return Committed(branch, new_commit, not refused, why_not, tuple(ignored))


def origin_key(branch: str) -> str:
    """The git setting that records where a branch began; git deletes it with the branch."""
    return f"branch.{branch}.ratchet-origin"


def _committed(repository: Repository, plan: Plan, head: str, file: PlannedFile) -> Blob | None:
    """A file's blob in HEAD; a file with local changes is refused."""
    path = repository.prefix + file.path
    old = repository.blob(head, path)
    why = ""
    if old is not None and old.mode == "120000":
        raise ShipError(f"{file.path} is a symbolic link in the last commit.")
    if old is None and read(plan.root, file.path) is not None:
        why = "is not in the last commit"
    elif any(repository.changes([path])):
        why = "has uncommitted changes"
    elif old is not None and file.before is not None:
        # Files of a sparse checkout, or assumed unchanged, are not in git's status.
        same = repository.store_blob(file.before, path, write=False) == old.hash
        why = "" if same else "differs from the last commit"
    elif old is not None:
        why = "is in the last commit but not in the work tree"
    if why:
        hint = f"Commit it first: git add {file.path} && git commit. Or write in place: --no-git"
        raise ShipError(f"{file.path} {why}.", hint=hint)
    return old


def check_branch(root: Path, branch: str) -> Repository:
    """The repository of a folder, after a check that the new branch can be created there.

    Raises:
        InputError: It is not a valid branch name.
        ShipError: Not a git repository, a merge or the like is under way, or the branch exists.
    """
    repository = Repository.open(root)
    repository.check_idle()
    try:
        repository.text("check-ref-format", "--branch", branch)
    except ShipError:
        raise InputError(f"{branch!r} is not a valid branch name.") from None
    if repository.commit_of(f"refs/heads/{branch}"):
        raise _exists(branch)
    return repository


def _exists(branch: str) -> ShipError:
    return ShipError(
        f"The branch {branch} already exists.",
        hint=f"Merge or delete it: git branch -D {branch}. Or choose another name: --branch NAME",
    )
