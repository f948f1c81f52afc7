"""Undo a release: delete its branch, or make a branch that restores the previous source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from ratchet.ship.carry import carried
from ratchet.ship.check import NO_TESTS, TestCommand, TestReport, run_tests
from ratchet.ship.commit import (
    changes_of,
    is_rollback_of,
    rollback_message,
    slots_at,
    store_release_commit,
)
from ratchet.ship.repository import Repository
from ratchet.source.literals.data_values import same_value
from ratchet.types import Conflict, Release, ReleaseState, ShipError

UNMERGED: frozenset[ReleaseState] = frozenset({"branched", "proposed", "closed"})
"""States of a release whose change is only on its branch."""


def refresh(release: Release, repo: Path) -> Release:
    """Update a release's state from the repository, including changes made by hand.

    A release is merged when its commit is in HEAD's history, or when HEAD's source holds its
    values (a squash or a cherry-pick). It is rolled back when its branch was deleted unmerged, or
    when it was merged and HEAD's source holds the old values again.

    Args:
        release: The last recorded state.
        repo: Folder of the repository.

    Returns:
        The release in its present state; the same object when nothing changed.

    Raises:
        ShipError: The repository cannot be read.
    """
    if release.state == "rolled_back":
        return release
    repository = Repository.open(repo)
    if repository.commit_of(release.commit) is None:
        raise ShipError(
            f"The commit {release.commit[:12]} of release {release.id[:12]} is not in"
            f" {repository.root}.",
            hint="Run this in the repository that it was made in.",
        )
    head = repository.head()
    on_branch = repository.head_branch()
    tip = repository.commit_of(f"refs/heads/{release.branch}")
    # On the release's own branch HEAD holds the commit without any merge.
    looking = on_branch == release.branch or (on_branch is None and head == release.commit)
    if not looking:
        holds = _holds(repository, head, release)
        ancestor = repository.is_ancestor(release.commit, head)
        if ancestor and holds == "old":
            return msgspec.structs.replace(
                release, state="rolled_back", rollback="reverted by hand"
            )
        if release.state in UNMERGED and (ancestor or holds == "new"):
            return msgspec.structs.replace(release, state="merged")
    # The branch of an open pull request is the forge's; a local one may go.
    if release.state == "branched" and tip is None:
        return msgspec.structs.replace(release, state="rolled_back", rollback="deleted")
    return release


def rollback(
    release: Release,
    repo: Path,
    now: float,
    *,
    tests: TestCommand = NO_TESTS,
    onto: str = "",
) -> Release:
    """Undo a release.

    An unmerged release loses its branch; `git branch NAME HASH` with its branch and commit restores
    it. For a merged one a branch is made on HEAD that restores the old source of the resource and
    leaves all other lines as they are, for the user to merge. Nothing is done at a forge.

    Args:
        release: The last recorded state.
        repo: Folder of the repository.
        now: Unix seconds, the time of the commit.
        tests: As for `ship`.
        onto: Full hash of the commit that the branch starts from; by default HEAD.

    Returns:
        The release, rolled back.

    Raises:
        Conflict: It is rolled back already.
        ShipError: The branch moved on or is checked out, the source of the resource changed since,
            or the tests fail because of the rollback.
    """
    if release.state == "rolled_back":
        restore = f"`git branch {release.branch} {release.commit}` restores its branch."
        merge = f"Merge the branch {release.rollback} if you have not yet."
        raise Conflict(
            f"Release {release.id[:12]} is already rolled back ({release.rollback}).",
            hint=merge if release.rollback.startswith("ratchet/") else restore,
        )
    release = refresh(release, repo)
    if release.state == "rolled_back":
        return release
    repository = Repository.open(repo)
    if release.state in UNMERGED:
        if repository.commit_of(f"refs/heads/{release.branch}"):
            _delete_branch(repository, release)
        return msgspec.structs.replace(release, state="rolled_back", rollback="deleted")
    branch = f"ratchet/rollback-{release.id[:8]}"
    tip = repository.commit_of(f"refs/heads/{branch}")
    if tip is None:
        commit = _rollback_commit(
            repository,
            release,
            onto or repository.head(),
            now,
            lambda commit, base: run_tests(repository, commit, base, tests),
        )
        repository.create_branch(branch, commit)
        tip = repository.commit_of(f"refs/heads/{branch}")
    if tip is None or not is_rollback_of(repository, tip, release):
        raise ShipError(
            f"A branch named {branch} exists with different content.",
            hint=f"Rename it with `git branch -m {branch} NEW_NAME`, then run this again.",
        )
    return msgspec.structs.replace(release, state="rolled_back", rollback=branch)


def _delete_branch(repository: Repository, release: Release) -> None:
    branch = release.branch
    if where := repository.checked_out_at(branch):
        raise ShipError(
            f"The branch {branch} is checked out in {where}.",
            hint=f"Run `git -C {where} switch -`, then roll back again.",
        )
    tip = repository.commit_of(f"refs/heads/{branch}")
    if tip != release.commit:
        raise ShipError(
            f"The branch {branch} is at {tip and tip[:12]}, not at the release's own commit"
            f" {release.commit[:12]}: it has other commits.",
            hint=f"Save that work elsewhere, then delete it with `git branch -D {branch}`.",
        )
    repository.delete_ref(f"refs/heads/{branch}", release.commit)


def _rollback_commit(
    repository: Repository,
    release: Release,
    head: str,
    now: float,
    test: Callable[[str, str], TestReport],
) -> str:
    changes = changes_of(repository, release.base, release.commit)
    blobs = carried(repository, head, release, changes, "back")
    targets = list(dict.fromkeys(change.target for change in changes))

    def commit_with(note: str) -> str:
        message = rollback_message(release, targets, note)
        return store_release_commit(repository, head, blobs, message, now)

    commit = commit_with("")
    report = test(commit, head)
    if report.outcome in ("passed", "not_configured"):
        return commit
    if report.base == "passed":
        raise ShipError(
            f"Rolling back release {release.id[:12]} breaks the tests: {report.sentence()}"
            f" No branch was created.\n{report.tail()}",
        )
    # The tests fail anyway: that must not block the rollback of a bad release.
    return commit_with("The repository's tests fail with and without this rollback.")


def _holds(repository: Repository, head: str, release: Release) -> str:
    """Which values HEAD's source has: the release's (`new`), the previous ones, or others."""
    try:
        changes = changes_of(repository, release.base, release.commit)
        states = [
            (state, [slots_at(repository, head, c.target, value).get(c.key) for c, value in pairs])
            for state, pairs in (
                ("new", [(c, c.target.after) for c in changes]),
                ("old", [(c, c.target.before) for c in changes]),
            )
        ]
    except ShipError:
        return "other"
    for state, slots in states:
        theirs = [(c.commit if state == "new" else c.base)[1].value for c in changes]
        values = [slot[1].value if slot else None for slot in slots]
        if all(same_value(a, b) for a, b in zip(values, theirs, strict=True)):
            return state
    return "other"
