"""The operations of every forge: reading pull requests by branch, and changing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ratchet.types import PullRequestState


@dataclass(frozen=True, kw_only=True)
class RequestRecord:
    """A pull request, in its state at the forge."""

    number: int
    url: str
    state: PullRequestState
    title: str
    body: str
    branch: str
    base: str
    head: str
    """Full hash of the tip of its branch."""
    labels: tuple[str, ...] = ()
    own: bool = True
    """Whether its branch is in the repository itself, not in a fork."""


@dataclass(frozen=True, kw_only=True)
class RequestDraft:
    """A pull request to be opened."""

    branch: str
    base: str
    title: str
    body: str
    draft: bool = False
    only_as_draft: bool = False
    """Whether the request fails if the forge has no drafts."""
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()


class Forge(Protocol):
    """A repository's forge: GitHub or GitLab.

    All methods raise `ForgeUnavailable` when the same call may succeed later, and `ForgeRefused`
    or another `ShipError` when it will not. Each may be called twice without doing a thing twice.
    """

    name: str
    repository: str

    def of_branch(self, branch: str) -> list[RequestRecord]:
        """The requests of a branch of the repository in any state, newest first."""
        ...

    def opened(self) -> list[RequestRecord]:
        """The open requests whose branches are in the repository itself."""
        ...

    def read(self, number: int) -> RequestRecord:
        """The pull request with that number."""
        ...

    def open(self, draft: RequestDraft) -> RequestRecord:
        """Open a request, or find the branch's open one. Sets no labels or reviewers."""
        ...

    def edit(self, number: int, body: str) -> None:
        """Replace a request's body."""
        ...

    def close(self, number: int, comment: str, key: str) -> None:
        """Comment on a request and close it.

        Args:
            number: The request.
            comment: The comment.
            key: A part of the comment by which it is found again.
        """
        ...

    def tag(self, record: RequestRecord, labels: Sequence[str]) -> None:
        """Add the labels that a request does not have."""
        ...

    def ask(self, number: int, reviewers: Sequence[str]) -> str:
        """Ask for reviews; return a sentence when the forge does not accept the reviewers."""
        ...

    def is_protected(self, branch: str) -> bool:
        """Whether an existing branch is protected."""
        ...
