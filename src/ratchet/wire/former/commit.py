"""Writes a plan: as one commit on a branch of its own, or as plain files.

The commit is made from git's objects alone: index, work tree and stashes stay as they are, no hook
runs, and the branch appears in one step, so that a kill leaves nothing or the whole commit.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ratchet.ship import Repository
from ratchet.ship.repository import Blob
from ratchet.types import InputError, ShipError
from ratchet.wire.former.plan import FormerPlan, contents, read, record_path

BRANCH = "ratchet/init"


class FormerCommitted(msgspec.Struct, frozen=True):
    """A commit that was made."""

    branch: str
    commit: str
    """Full hash."""
    switched: bool
    """Whether the work tree is on the branch now."""
    why_not: str = ""
    """Why it is not."""


def commit(
    root: Path, plan: FormerPlan, branch: str = BRANCH, *, switch: bool = True
) -> FormerCommitted:
    """Commit a plan to a new branch.

    Args:
        root: The repository, or a folder of one.
        plan: What is written.
        branch: Name of the new branch.
        switch: Check the branch out, if no tracked file of the work tree is changed.

    Raises:
        InputError: There is nothing to write, or a file changed since the plan was made.
        ShipError: It is no git repository, or a submodule; HEAD is detached; a merge or the like is
            under way; a file of the plan has uncommitted changes; or the branch exists.
    """
    root = root.resolve()
    if not plan.changes.files:
        raise InputError("There is nothing to wire: the plan is empty.")
    prompts = sum(one.way != "leave" for one in plan.choices.prompts)
    message = (
        f"Wire {plan.choices.agent} for Ratchet\n\n"
        + "".join(f"{one.path}: {one.purpose}\n" for one in plan.changes.files)
        + f"\n{prompts} prompts are bound. Take it back with: ratchet init --undo\n"
    )
    return commit_contents(root, contents(root, plan), message, branch, switch=switch)


def commit_contents(
    root: Path, made: Mapping[str, bytes | None], message: str, branch: str, *, switch: bool
) -> FormerCommitted:
    """Commit new contents of files to a new branch; None removes a file. Raises as `commit`."""
    repository = Repository.open(root)
    if repository.head_branch() is None:
        raise ShipError(
            f"HEAD of {repository.root} is detached.",
            hint="Check a branch out first: git switch BRANCH",
        )
    repository.check_idle()
    _check_name(repository, branch)
    head = repository.head()
    blobs: dict[str, Blob | None] = {}
    present = _committed(repository, root, head, list(made))
    for path, data in made.items():
        inner, old = repository.prefix + path, present[path]
        mode = old.mode if old else "100644"
        blobs[inner] = Blob(mode, repository.store_blob(data, inner)) if data is not None else None
    commit = repository.store_commit(head, blobs, message, time.time())
    changed = repository.changed_paths(head, commit)
    if not set(changed) <= set(blobs):
        raise ShipError(f"The commit would change {sorted(set(changed) - set(blobs))} too.")
    if not repository.create_branch(branch, commit):
        raise _exists(branch)
    why_not = _switch(repository, branch) if switch else "It was not asked for."
    return FormerCommitted(branch, commit, not why_not, why_not)


def _switch(repository: Repository, branch: str) -> str:
    changed = [path for state, path in repository.changes() if state != "??"]
    if changed:
        return f"{changed[0]} has uncommitted changes. When they are committed: git switch {branch}"
    refused = repository.switch(branch)
    return f"git refused: {refused}. Later: git switch {branch}" if refused else ""


def _check_name(repository: Repository, branch: str) -> None:
    try:
        repository.text("check-ref-format", "--branch", branch)
    except ShipError:
        raise InputError(f"{branch!r} is no name of a branch.") from None
    if repository.commit_of(f"refs/heads/{branch}"):
        raise _exists(branch)


def _exists(branch: str) -> ShipError:
    return ShipError(
        f"The branch {branch} exists.",
        hint=f"Merge it, or delete it: git branch -D {branch}. Or name another: --branch NAME",
    )


def _committed(
    repository: Repository, root: Path, head: str, paths: list[str]
) -> dict[str, Blob | None]:
    """The files as HEAD has them; refuse one that differs: its changes would come along."""
    found: dict[str, Blob | None] = {}
    inner = [repository.prefix + path for path in paths]
    changed = {path: state for state, path in repository.changes(inner)}
    for path, whole in zip(paths, inner, strict=True):
        old, data = repository.blob(head, whole), read(root, path)
        if old is not None and old.mode == "120000":
            raise ShipError(f"{path} is a symbolic link in the last commit.")
        if old is None and data is not None:
            why = "is not in the last commit"
        elif whole in changed:
            why = "has uncommitted changes"
        elif old is not None and data is not None:
            # Files of a sparse checkout, or assumed unchanged, are not in git's status.
            same = repository.store_blob(data, whole, write=False) == old.hash
            why = "" if same else "differs from the last commit"
        else:
            why = ""
        if why:
            raise ShipError(f"{path} {why}.", hint=f"Commit it first: git add {path} && git commit")
        found[path] = old
    return found


def write(root: Path, plan: FormerPlan) -> None:
    """Write a plan as plain files, for a folder without git, or one who commits on their own.

    The record is written first, so that `ratchet init --undo` also takes back what a kill left
    half done.

    Raises:
        InputError: There is nothing to write, or a file changed since the plan was made.
    """
    root = root.resolve()
    if not plan.changes.files:
        raise InputError("There is nothing to wire: the plan is empty.")
    made = contents(root, plan)
    record = record_path(plan.choices.project)
    write_contents(root, {record: made[record], **made})


def write_contents(root: Path, made: Mapping[str, bytes | None]) -> None:
    """Write files, each in one step; None removes one, and folders that are empty then."""
    for path, data in made.items():
        whole = root / path
        present = read(root, path) is not None
        if data is None:
            whole.unlink(missing_ok=True)
            _remove_empty(whole.parent, root)
            continue
        whole.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=whole.parent, prefix=".ratchet-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            if present:
                shutil.copymode(whole, temporary)
            else:
                os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, whole)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _remove_empty(folder: Path, root: Path) -> None:
    while folder != root and folder.is_relative_to(root):
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def _umask() -> int:
    mask = os.umask(stat.S_IWGRP | stat.S_IWOTH)
    os.umask(mask)
    return mask
