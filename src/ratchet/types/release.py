"""Releases: promoted candidates, and drafts of unproved ones, with their state."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

ReleaseState: TypeAlias = Literal[
    "branched", "proposed", "closed", "merged", "active", "rolled_back"
]
"""branched: a local branch. proposed: a pull request is open. closed: it was closed unmerged, which
means no. merged: part of the source. active: in effect at the gateway."""

RELEASE_TRANSITIONS: dict[ReleaseState, frozenset[ReleaseState]] = {
    "branched": frozenset({"proposed", "closed", "merged", "rolled_back"}),
    "proposed": frozenset({"closed", "merged", "rolled_back"}),
    "closed": frozenset({"proposed", "merged", "rolled_back"}),  # a person may reopen it
    "merged": frozenset({"rolled_back"}),
    "active": frozenset({"rolled_back"}),
    "rolled_back": frozenset(),
}
"""Allowed state transitions."""

PullRequestState: TypeAlias = Literal["open", "merged", "closed"]


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request on GitHub, or a merge request on GitLab, as it was last read."""

    url: str
    """Address of its page."""
    number: int
    state: PullRequestState
    head: str = ""
    """Full hash of the tip of its branch."""
    note: str = ""
    """Why it was left unchanged or closed; empty if there is nothing to say."""


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """A promoted candidate with its evidence, as a git branch or active at the gateway.

    Or a draft for people to judge, as a git branch.
    """

    id: str
    experiment_id: str
    candidate_id: str
    baseline_id: str
    state: ReleaseState
    repo: str
    """Absolute path of the git repository."""
    branch: str
    """Empty for a release at the gateway."""
    base: str
    """Full hash of the commit that the branch starts from; at the gateway, id of the candidate
    that was active before, or empty."""
    commit: str
    """Full hash of the commit with the patch; empty for a release at the gateway."""
    pull_request: str
    """Path of the text for reviewers."""
    evidence: str
    """Path of the evidence file."""
    created_at: float
    draft: bool = False
    """Whether it was not proved better, so that only a person's merge releases it."""
    agent: str = ""
    """Name of the agent at the gateway whose calls get the candidate's prompts; empty for a
    branch."""
    rollback: str = ""
    """Result of a rollback: `deleted` for a deleted branch, else the name of the branch that
    reverts the release; at the gateway, a sentence."""
    rollback_reason: str = ""
    """Why it was rolled back, in a person's words; empty if nobody said."""
    request: PullRequest | None = None
    """The pull request; None if none was opened."""
    revert: PullRequest | None = None
    """The pull request of the branch that reverts the release; None if none was opened."""
