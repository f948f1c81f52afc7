"""A stateful GitLab in a thread, with the fields of its merge requests API that are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.ship.forges.fake_forge import Answer, FakeForge, Request, Sent

PROJECT = "acme/team/helper"
FIELDS = {
    "POST": {"source_branch", "target_branch", "title", "description"},
    "PUT": {"description", "state_event", "add_labels", "reviewer_ids"},
    "GET": set[str](),
}
QUERY = {"state", "source_branch", "order_by", "sort", "per_page", "page", "username"}
USERS = {"ada": 11, "ben": 12}


class FakeGitLab(FakeForge):
    """The project acme/team/helper."""

    def __init__(self, git: Path) -> None:
        super().__init__(git)
        self.requests: list[Request] = []
        self.protected: set[str] = set()
        self.reviewers: dict[int, list[int]] = {}

    def answered(self, sent: Sent) -> Answer:
        if sent.headers.get("private-token") != self.token:
            return 401, {}, {"message": "401 Unauthorized"}
        if unknown := sent.query.keys() - QUERY:
            self.violations.append(f"no query parameters {unknown}")
        if sent.path == "/users":
            name = sent.query["username"]
            return 200, {}, [{"id": USERS[name], "username": name}] if name in USERS else []
        prefix = "/projects/acme%2Fteam%2Fhelper/"
        if not sent.path.startswith(prefix):
            return 404, {}, {"message": "404 Project Not Found"}
        parts = sent.path.removeprefix(prefix).split("/")
        if parts[:2] == ["repository", "branches"]:
            return self._branch(unquote(parts[2]))
        if parts[-1] == "notes":
            return self._notes(sent, self.requests[int(parts[1]) - 1])
        fields = set(sent.body or ())
        if unknown := fields - FIELDS[sent.method]:
            self.violations.append(f"{sent.method} has no fields {unknown}")
        if len(parts) == 1:
            return self._create(sent) if sent.method == "POST" else self._list(sent)
        number = int(parts[1])
        if not 1 <= number <= len(self.requests):
            return 404, {}, {"message": "404 Not found"}
        request = self.requests[number - 1]
        if sent.method == "PUT":
            request.body = sent.body.get("description", request.body)
            request.labels += filter(None, sent.body.get("add_labels", "").split(","))
            self.reviewers[number] = sent.body.get("reviewer_ids", [])
            if sent.body.get("state_event") == "close":
                request.state = "closed"
        return 200, {}, self._shown(request)

    def _list(self, sent: Sent) -> Answer:
        branch = sent.query.get("source_branch")
        wanted = sent.query["state"]
        found = [
            self._shown(each)
            for each in reversed(self.requests)
            if branch in (None, each.branch)
            and (wanted == "all" or (wanted == "opened") == (each.state == "open"))
        ]
        size, page = int(sent.query["per_page"]), int(sent.query.get("page", 1))
        return 200, {}, found[size * (page - 1) : size * page]

    def _create(self, sent: Sent) -> Answer:
        if missing := {"source_branch", "target_branch", "title"} - set(sent.body):
            return 400, {}, {"error": f"{', '.join(sorted(missing))} is missing"}
        branch = sent.body["source_branch"]
        if any(each.branch == branch and each.state == "open" for each in self.requests):
            text = f"Another open merge request already exists for this source branch: {branch}"
            return 409, {}, {"message": [text]}
        request = Request(
            number=len(self.requests) + 1,
            title=sent.body["title"],
            body=sent.body["description"],
            branch=branch,
            base=sent.body["target_branch"],
            head=self.tip(branch) or "",
        )
        self.requests.append(request)
        return 201, {}, self._shown(request)

    def _notes(self, sent: Sent, request: Request) -> Answer:
        if sent.method == "POST":
            request.comments.append(sent.body["body"])
            return 201, {}, {"id": 1, "body": sent.body["body"]}
        return 200, {}, [{"id": 1, "body": text} for text in request.comments]

    def _branch(self, branch: str) -> Answer:
        tip = self.tip(branch)
        if tip is None:
            return 404, {}, {"message": "404 Branch Not Found"}
        return 200, {}, {"name": branch, "protected": branch in self.protected}

    def _shown(self, request: Request) -> dict[str, Any]:
        if request.state == "open":
            request.head = self.tip(request.branch) or request.head
        state = "merged" if request.merged else {"open": "opened"}.get(request.state, request.state)
        return {
            "id": 1000 + request.number,
            "iid": request.number,
            "web_url": f"https://gitlab.test/{PROJECT}/-/merge_requests/{request.number}",
            "state": state,
            "title": request.title,
            "description": request.body,
            "source_branch": request.branch,
            "target_branch": request.base,
            "sha": request.head,
            "labels": request.labels,
            "source_project_id": 2 if request.fork else 1,
            "target_project_id": 1,
        }
