"""Releases: candidates that were promoted, and what became of them."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

ReleaseState: TypeAlias = Literal["branched", "merged", "rolled_back"]

RELEASE_TRANSITIONS: dict[ReleaseState, frozenset[ReleaseState]] = {
    "branched": frozenset({"merged", "rolled_back"}),
    "merged": frozenset({"rolled_back"}),
    "rolled_back": frozenset(),
}
"""Which state may follow which."""


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """A promoted candidate as a git branch with its evidence."""

    id: str
    experiment_id: str
    candidate_id: str
    baseline_id: str
    state: ReleaseState
    repo: str
    """Absolute path of the git repository."""
    branch: str
    base: str
    """Full hash of the commit that the branch starts from."""
    commit: str
    """Full hash of the commit that holds the patch."""
    pull_request: str
    """Path of the pull-request text."""
    evidence: str
    """Path of the evidence file."""
    created_at: float
    rollback: str = ""
    """What the rollback did: `deleted` the branch, or the branch that reverts it."""
