"""Releases: promoted candidates and their state."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

ReleaseState: TypeAlias = Literal["branched", "merged", "rolled_back"]

RELEASE_TRANSITIONS: dict[ReleaseState, frozenset[ReleaseState]] = {
    "branched": frozenset({"merged", "rolled_back"}),
    "merged": frozenset({"rolled_back"}),
    "rolled_back": frozenset(),
}
"""Allowed state transitions."""


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
    """Full hash of the commit with the patch."""
    pull_request: str
    """Path of the pull-request text."""
    evidence: str
    """Path of the evidence file."""
    created_at: float
    rollback: str = ""
    """Result of a rollback: `deleted` for a deleted branch, else the name of the branch that
    reverts the release."""
