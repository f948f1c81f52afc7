"""GitLab's REST API: the operations on merge requests that a release needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias
from urllib.parse import quote

import msgspec

from ratchet.ship.forges.http import ForgeHttp, ForgeRefused
from ratchet.ship.forges.record import RequestDraft, RequestRecord
from ratchet.types import ForgeUnavailable, PullRequestState

_State: TypeAlias = Literal["opened", "locked", "closed", "merged"]

NEEDS = "the scope api, and at least the role Developer"
_STATES: dict[_State, PullRequestState] = {
    "opened": "open",
    "locked": "open",
    "closed": "closed",
    "merged": "merged",
}
_MOST_PAGES = 10
_PAGE = 100
_BRANCH_TRIES = 3


class _MergeRequest(msgspec.Struct):
    iid: int
    web_url: str
    state: _State
    title: str
    source_branch: str
    target_branch: str
    target_project_id: int
    source_project_id: int | None
    """None when a fork was deleted."""
    description: str | None = None
    sha: str | None = None
    labels: list[str] = []


class _Note(msgspec.Struct):
    body: str | None = None


class _User(msgspec.Struct):
    id: int


class _Branch(msgspec.Struct):
    protected: bool


class GitLab:
    """A project on gitlab.com or on a GitLab server.

    Args:
        http: Its API.
        repository: GROUP/NAME, with subgroups between them.
    """

    name = "GitLab"

    def __init__(self, http: ForgeHttp, repository: str) -> None:
        self.repository = repository
        self._http = http
        self._path = _path(repository)

    def of_branch(self, branch: str) -> list[RequestRecord]:
        """See `Forge.of_branch`."""
        query = f"source_branch={quote(branch, safe='')}&order_by=created_at&sort=desc"
        path = f"{self._path}/merge_requests?state=all&{query}&per_page={_PAGE}"
        merge_requests = self._http.get(path, list[_MergeRequest])
        return [record for record in map(_record, merge_requests) if record.own]

    def opened(self) -> list[RequestRecord]:
        """See `Forge.opened`."""
        records: list[RequestRecord] = []
        for page in range(1, _MOST_PAGES + 1):
            query = f"state=opened&per_page={_PAGE}&page={page}"
            merge_requests = self._http.get(
                f"{self._path}/merge_requests?{query}", list[_MergeRequest]
            )
            records += map(_record, merge_requests)
            if len(merge_requests) < _PAGE:
                break
        return [record for record in records if record.own]

    def read(self, number: int) -> RequestRecord:
        """See `Forge.read`."""
        return _record(self._http.get(f"{self._path}/merge_requests/{number}", _MergeRequest))

    def open(self, draft: RequestDraft) -> RequestRecord:
        """See `Forge.open`."""
        for tries in range(1, _BRANCH_TRIES + 1):
            try:
                path, body = opening(self.repository, draft)
                return _record(self._http.send("POST", path, body, _MergeRequest))
            except ForgeUnavailable:
                existing = self._existing(draft.branch)
                if existing is None:
                    raise
                return existing
            except ForgeRefused as error:
                if error.status == 409 and (existing := self._existing(draft.branch)):
                    return existing
                # A pushed branch becomes known a moment after the push.
                if error.status != 400 or not error.says("branch") or tries == _BRANCH_TRIES:
                    raise
            self._http.wait(float(tries))
        raise AssertionError("the last try returns or raises")

    def edit(self, number: int, body: str) -> None:
        """See `Forge.edit`."""
        self._change(number, {"description": body})

    def close(self, number: int, comment: str, key: str) -> None:
        """See `Forge.close`."""
        notes = f"{self._path}/merge_requests/{number}/notes"
        posted = self._http.get(f"{notes}?sort=desc&per_page={_PAGE}", list[_Note])
        if not any(key in (note.body or "") for note in posted):
            self._http.send("POST", notes, {"body": comment}, object)
        self._change(number, {"state_event": "close"})

    def tag(self, record: RequestRecord, labels: Sequence[str]) -> None:
        """See `Forge.tag`."""
        missing = [label for label in labels if label not in record.labels]
        if missing:
            self._change(record.number, {"add_labels": ",".join(missing)})

    def ask(self, number: int, reviewers: Sequence[str]) -> str:
        """See `Forge.ask`."""
        ids: list[int] = []
        unknown: list[str] = []
        for name in reviewers:
            users = self._http.get(f"/users?username={quote(name, safe='')}", list[_User])
            ids += [user.id for user in users[:1]]
            if not users:
                unknown.append(name)
        if ids:
            self._change(number, {"reviewer_ids": ids})
        return f"GitLab does not know {', '.join(unknown)}." if unknown else ""

    def is_protected(self, branch: str) -> bool:
        """See `Forge.is_protected`."""
        path = f"{self._path}/repository/branches/{quote(branch, safe='')}"
        try:
            return self._http.get(path, _Branch).protected
        except ForgeRefused as error:
            if error.status == 404 and error.says("branch not found"):
                return False
            raise

    def _change(self, number: int, body: dict[str, object]) -> None:
        self._http.send("PUT", f"{self._path}/merge_requests/{number}", body, object)

    def _existing(self, branch: str) -> RequestRecord | None:
        return next((record for record in self.of_branch(branch) if record.state == "open"), None)


def opening(repository: str, draft: RequestDraft) -> tuple[str, dict[str, object]]:
    """Path and body of the POST request that opens a merge request."""
    return f"{_path(repository)}/merge_requests", {
        "source_branch": draft.branch,
        "target_branch": draft.base,
        "title": f"Draft: {draft.title}" if draft.draft else draft.title,
        "description": draft.body,
    }


def _path(repository: str) -> str:
    return f"/projects/{quote(repository, safe='')}"


def _record(merge_request: _MergeRequest) -> RequestRecord:
    return RequestRecord(
        number=merge_request.iid,
        url=merge_request.web_url,
        state=_STATES[merge_request.state],
        title=merge_request.title,
        body=merge_request.description or "",
        branch=merge_request.source_branch,
        base=merge_request.target_branch,
        head=merge_request.sha or "",
        labels=tuple(merge_request.labels),
        own=merge_request.source_project_id == merge_request.target_project_id,
    )
