"""A stateful GitHub in a thread; what it receives and sends is checked by GitHub's description."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.ship.forges.fake_forge import Answer, FakeForge, Request, Sent
from tests.ship.forges.github_facts import FACTS
from tests.ship.forges.openapi import ABSENT, Description

REPOSITORY = "acme/helper"
DESCRIPTION = Description(FACTS)


class FakeGitHub(FakeForge):
    """The repository acme/helper."""

    def __init__(self, git: Path) -> None:
        super().__init__(git)
        self.requests: list[Request] = []
        self.protected: set[str] = set()
        self.drafts = True
        self.app_tokens: list[str] = []

    def answered(self, sent: Sent) -> Answer:
        found = DESCRIPTION.operation(sent.method, sent.path)
        if found is None:
            self.violations.append(f"no operation {sent.method} {sent.path}")
            return 404, {}, {"message": "Not Found"}
        operation, names = found
        wrong = DESCRIPTION.wrong_request(
            operation, sent.query, ABSENT if sent.body is None else sent.body
        )
        self.violations += [f"{sent.method} {sent.path}: {each}" for each in wrong]
        status, headers, body = self._checked(sent, operation, names)
        wrong = DESCRIPTION.wrong_response(operation, status, body)
        self.violations += [f"response of {sent.method} {sent.path}: {each}" for each in wrong]
        return status, headers, body

    def _checked(self, sent: Sent, operation: dict[str, Any], names: dict[str, str]) -> Answer:
        token = sent.headers.get("authorization", "")
        if "installation" in sent.path:
            return self._app(sent, operation, token)
        if token not in [f"Bearer {each}" for each in (self.token, *self.app_tokens)]:
            return 401, {}, {"message": "Bad credentials"}
        if sent.headers.get("x-github-api-version") != "2022-11-28":
            self.violations.append("no API version")
        if f"{names['owner']}/{names['repo']}" != REPOSITORY:
            return 404, {}, {"message": "Not Found"}
        if "branch" in names:
            return self._branch(operation, unquote(names["branch"]))
        number = names.get("pull_number") or names.get("issue_number")
        if number is None:
            return self._create(sent) if sent.method == "POST" else self._list(sent)
        request = next((each for each in self.requests if each.number == int(number)), None)
        if request is None:
            return 404, {}, {"message": "Not Found"}
        if sent.path.endswith("/comments"):
            return self._comments(sent, request)
        if sent.path.endswith("/labels"):
            request.labels += sent.body["labels"]
            labels = [{**DESCRIPTION.schema("label"), "name": name} for name in request.labels]
            return 200, {}, labels
        if sent.path.endswith("/requested_reviewers"):
            asked = [*sent.body.get("reviewers", ()), *sent.body.get("team_reviewers", ())]
            if "author" in asked:
                return 422, {}, _invalid("Review cannot be requested from pull request author.")
            request.reviewers = sorted({*request.reviewers, *asked})
            return 201, {}, self._shown(request, "pull-request-simple")
        if sent.method == "PATCH":
            request.body = sent.body.get("body", request.body)
            request.title = sent.body.get("title", request.title)
            request.state = sent.body.get("state", request.state)
        return 200, {}, self._shown(request, "pull-request")

    def _list(self, sent: Sent) -> Answer:
        state = sent.query.get("state", "open")
        found = [
            each
            for each in reversed(self.requests)
            if state in ("all", each.state)
            and sent.query.get("head", f"acme:{each.branch}") == f"acme:{each.branch}"
        ]
        size, page = int(sent.query.get("per_page", 30)), int(sent.query.get("page", 1))
        shown = found[size * (page - 1) : size * page]
        return 200, {}, [self._shown(each, "pull-request-simple") for each in shown]

    def _create(self, sent: Sent) -> Answer:
        head, base = sent.body["head"], sent.body["base"]
        if self.tip(base) is None:
            return 422, {}, _failed("base", "invalid")
        if self.tip(head) is None:
            return 422, {}, _failed("head", "invalid")
        if any(each.branch == head and each.state == "open" for each in self.requests):
            return 422, {}, _invalid(f"A pull request already exists for acme:{head}.")
        if not self.ahead(base, head):
            return 422, {}, _invalid(f"No commits between {base} and {head}")
        if sent.body.get("draft") and not self.drafts:
            text = "Draft pull requests are not supported in this repository."
            return 422, {}, _invalid(text)
        request = Request(
            number=len(self.requests) + 1,
            title=sent.body["title"],
            body=sent.body["body"],
            branch=head,
            base=base,
            head=self.tip(head) or "",
            draft=bool(sent.body.get("draft")),
        )
        self.requests.append(request)
        return 201, {}, self._shown(request, "pull-request")

    def _comments(self, sent: Sent, request: Request) -> Answer:
        def shown(text: str) -> dict[str, Any]:
            return {**DESCRIPTION.schema("issue-comment"), "body": text}

        if sent.method == "POST":
            request.comments.append(sent.body["body"])
            return 201, {}, shown(request.comments[-1])
        return 200, {}, [shown(text) for text in request.comments]

    def _branch(self, operation: dict[str, Any], branch: str) -> Answer:
        tip = self.tip(branch)
        if tip is None:
            return 404, {}, {"message": "Branch not found"}
        made = DESCRIPTION.example(operation, 200)
        return 200, {}, {**made, "name": branch, "protected": branch in self.protected}

    def _app(self, sent: Sent, operation: dict[str, Any], token: str) -> Answer:
        if token.count(".") != 2:
            return 401, {}, {"message": "A JSON web token could not be decoded"}
        if sent.method == "GET":
            return 200, {}, {**DESCRIPTION.example(operation, 200), "id": 7}
        self.app_tokens.append(f"app-token-{len(self.app_tokens) + 1}")
        made = DESCRIPTION.example(operation, 201)
        return 201, {}, {**made, "token": self.app_tokens[-1]}

    def _shown(self, request: Request, schema: str) -> dict[str, Any]:
        made = DESCRIPTION.schema(schema)
        repository = DESCRIPTION.schema("repository")
        here = {**repository, "id": 1, "full_name": REPOSITORY}
        source = {**repository, "id": 2, "full_name": "eve/helper"} if request.fork else here
        if request.state == "open":
            request.head = self.tip(request.branch) or request.head
        user = DESCRIPTION.schema("simple-user")
        label = {"id": 1, "node_id": "x", "url": "x", "color": "x", "default": False}
        label |= {"description": ""}
        return {
            **made,
            "number": request.number,
            "html_url": f"https://github.test/{REPOSITORY}/pull/{request.number}",
            "state": request.state,
            "title": request.title,
            "body": request.body,
            "merged_at": "2026-01-02T03:04:05Z" if request.merged else None,
            "head": {
                "label": f"acme:{request.branch}",
                "ref": request.branch,
                "sha": request.head,
                "user": user,
                "repo": source,
            },
            "base": {
                "label": f"acme:{request.base}",
                "ref": request.base,
                "sha": self.tip(request.base) or "",
                "user": user,
                "repo": here,
            },
            "labels": [{**label, "name": name} for name in request.labels],
        }


def _invalid(message: str) -> dict[str, Any]:
    error = {"resource": "PullRequest", "code": "custom", "message": message}
    return {"message": "Validation Failed", "documentation_url": "x", "errors": [error]}


def _failed(field: str, code: str) -> dict[str, Any]:
    error = {"resource": "PullRequest", "field": field, "code": code}
    return {"message": "Validation Failed", "documentation_url": "x", "errors": [error]}
