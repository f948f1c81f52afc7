"""GitHub's REST API: the operations on pull requests that a release needs."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from ratchet.ship.forges.http import ForgeHttp, ForgeRefused
from ratchet.ship.forges.record import RequestDraft, RequestRecord
from ratchet.types import ForgeUnavailable, PullRequestState, ShipError

API_VERSION = "2022-11-28"
ACCEPT = "application/vnd.github+json, application/json"
NEEDS = "read and write access to pull requests, and read access to contents"
_MOST_PAGES = 10
_PAGE = 100


class _Repository(msgspec.Struct):
    id: int


class _End(msgspec.Struct):
    """One of the two branches of a pull request."""

    ref: str
    sha: str
    repo: _Repository | None
    """None when a fork was deleted."""


class _Label(msgspec.Struct):
    name: str


class _Pull(msgspec.Struct):
    number: int
    html_url: str
    state: str
    title: str
    body: str | None
    merged_at: str | None
    labels: list[_Label]
    head: _End
    base: _End


class _Comment(msgspec.Struct):
    body: str | None = None


class _Branch(msgspec.Struct):
    protected: bool


class GitHub:
    """A repository on github.com or on a GitHub Enterprise server.

    Args:
        http: Its API.
        repository: OWNER/NAME.
    """

    name = "GitHub"

    def __init__(self, http: ForgeHttp, repository: str) -> None:
        owner, _, name = repository.partition("/")
        if not owner or not name or "/" in name:
            raise ShipError(
                f"{repository!r} is not a repository on GitHub.",
                hint="Set repository under [ship] to OWNER/NAME, or correct forge.",
            )
        self.repository = repository
        self._owner = owner
        self._http = http
        self._path = _path(repository)

    def of_branch(self, branch: str) -> list[RequestRecord]:
        """See `Forge.of_branch`."""
        head = quote(f"{self._owner}:{branch}", safe="")
        pulls = self._http.get(
            f"{self._path}/pulls?state=all&head={head}&per_page={_PAGE}", list[_Pull]
        )
        records = [_record(pull) for pull in pulls]
        return [record for record in records if record.own and record.branch == branch]

    def opened(self) -> list[RequestRecord]:
        """See `Forge.opened`."""
        records: list[RequestRecord] = []
        for page in range(1, _MOST_PAGES + 1):
            path = f"{self._path}/pulls?state=open&per_page={_PAGE}&page={page}"
            pulls = self._http.get(path, list[_Pull])
            records += map(_record, pulls)
            if len(pulls) < _PAGE:
                break
        return [record for record in records if record.own]

    def read(self, number: int) -> RequestRecord:
        """See `Forge.read`."""
        return _record(self._http.get(f"{self._path}/pulls/{number}", _Pull))

    def open(self, draft: RequestDraft) -> RequestRecord:
        """See `Forge.open`."""
        try:
            return self._open(draft)
        except ForgeUnavailable:
            # The response may be lost, but not the request.
            existing = self._existing(draft.branch)
            if existing is None:
                raise
            return existing

    def edit(self, number: int, body: str) -> None:
        """See `Forge.edit`."""
        self._http.send("PATCH", f"{self._path}/pulls/{number}", {"body": body}, object)

    def close(self, number: int, comment: str, key: str) -> None:
        """See `Forge.close`."""
        comments = f"{self._path}/issues/{number}/comments"
        for page in range(1, _MOST_PAGES + 1):
            posted = self._http.get(f"{comments}?per_page={_PAGE}&page={page}", list[_Comment])
            if any(key in (note.body or "") for note in posted):
                break
            if len(posted) < _PAGE:
                self._http.send("POST", comments, {"body": comment}, object)
                break
        self._http.send("PATCH", f"{self._path}/pulls/{number}", {"state": "closed"}, object)

    def tag(self, record: RequestRecord, labels: Sequence[str]) -> None:
        """See `Forge.tag`."""
        missing = [label for label in labels if label not in record.labels]
        if missing:
            path = f"{self._path}/issues/{record.number}/labels"
            self._http.send("POST", path, {"labels": missing}, object, repeat=True)

    def ask(self, number: int, reviewers: Sequence[str]) -> str:
        """See `Forge.ask`. A team is named ORGANISATION/TEAM."""
        if not reviewers:
            return ""
        body = {
            "reviewers": [name for name in reviewers if "/" not in name],
            "team_reviewers": [name.partition("/")[2] for name in reviewers if "/" in name],
        }
        path = f"{self._path}/pulls/{number}/requested_reviewers"
        try:
            requested = {kind: names for kind, names in body.items() if names}
            self._http.send("POST", path, requested, object, repeat=True)
        except ForgeRefused as error:
            if error.status != 422:
                raise
            return f"GitHub did not ask {', '.join(reviewers)} for a review: {error.details[-1:]}"
        return ""

    def is_protected(self, branch: str) -> bool:
        """See `Forge.is_protected`."""
        try:
            path = f"{self._path}/branches/{quote(branch, safe='')}"
            return self._http.get(path, _Branch).protected
        except ForgeRefused as error:
            if error.status == 404 and error.says("branch not found"):
                return False
            raise

    def _open(self, draft: RequestDraft, plain: bool = False) -> RequestRecord:
        path, body = opening(self.repository, draft, plain)
        try:
            return _record(self._http.send("POST", path, body, _Pull))
        except ForgeRefused as error:
            if error.status != 422:
                raise
            if error.says("already exists") and (existing := self._existing(draft.branch)):
                return existing
            if error.says("draft") and draft.only_as_draft:
                raise ShipError(
                    f"{self.repository} does not support draft pull requests, but an unproved "
                    "candidate can only be proposed as a draft.",
                    hint=f"The branch {draft.branch} is pushed: open a pull request for it by "
                    "hand.",
                ) from None
            if error.says("draft") and not plain:  # private repositories of some plans
                return self._open(draft, plain=True)
            if error.says("no commits between"):
                raise ShipError(
                    f"{draft.base} of {self.repository} already has this change, so there is "
                    "nothing to propose.",
                    hint="Run git fetch; `ratchet releases` then shows the release as merged.",
                ) from None
            if error.says("base"):
                raise ShipError(
                    f"{self.repository} has no branch {draft.base} that accepts pull requests"
                    f" ({'; '.join(error.details)}).",
                    hint="Set base under [ship].",
                ) from None
            if error.says("head"):
                raise ShipError(
                    f"GitHub cannot find the branch {draft.branch} in {self.repository}"
                    f" ({'; '.join(error.details)}).",
                    hint="Check that the remote under [ship] pushes to this repository.",
                ) from None
            raise

    def _existing(self, branch: str) -> RequestRecord | None:
        return next((record for record in self.of_branch(branch) if record.state == "open"), None)


def _record(pull: _Pull) -> RequestRecord:
    state: PullRequestState = "open" if pull.state == "open" else "closed"
    if pull.merged_at:
        state = "merged"
    own = pull.head.repo is not None and pull.head.repo == pull.base.repo
    return RequestRecord(
        number=pull.number,
        url=pull.html_url,
        state=state,
        title=pull.title,
        body=pull.body or "",
        branch=pull.head.ref,
        base=pull.base.ref,
        head=pull.head.sha,
        labels=tuple(label.name for label in pull.labels),
        own=own,
    )


def opening(
    repository: str, draft: RequestDraft, plain: bool = False
) -> tuple[str, dict[str, object]]:
    """Path and body of the POST request that opens a pull request; when `plain`, not a draft."""
    body: dict[str, object] = {
        "title": draft.title,
        "head": draft.branch,
        "base": draft.base,
        "body": draft.body,
    }
    if draft.draft and not plain:
        body["draft"] = True
    return f"{_path(repository)}/pulls", body


def _path(repository: str) -> str:
    return f"/repos/{quote(repository)}"
