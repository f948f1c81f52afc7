"""GitHub's description: the fake refuses by it, and so does a mock server that is made from it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.free_ports import free_port
from tests.node_packages import installed, node
from tests.ship.forges.fake_github import DESCRIPTION, REPOSITORY
from tests.ship.forges.github_facts import FACTS
from tests.ship.forges.openapi import ABSENT

from ratchet._http import httpx2
from ratchet.ship.forges.github import GitHub
from ratchet.ship.forges.http import ForgeHttp, ForgeRefused
from ratchet.ship.forges.record import RequestDraft
from ratchet.ship.forges.settings import ForgePlace, ForgeSettings, connect

DRAFT = RequestDraft(branch="ratchet/a-1", base="main", title="Improve a", body="why", draft=True)
PULLS = f"/repos/{REPOSITORY}/pulls"


def operation(method: str, path: str) -> dict[str, Any]:
    found = DESCRIPTION.operation(method, path)
    assert found is not None
    return found[0]


@pytest.mark.parametrize(
    ("method", "path", "query", "body"),
    [
        ("POST", PULLS, {}, {"head": "a"}),
        ("POST", PULLS, {}, {"head": "a", "base": "b", "title": "t", "labels": ["x"]}),
        ("POST", PULLS, {}, ABSENT),
        ("GET", PULLS, {"state": "opened"}, ABSENT),
        ("GET", PULLS, {"branch": "a"}, ABSENT),
        ("PATCH", f"{PULLS}/1", {}, {"state": "merged"}),
        ("POST", f"/repos/{REPOSITORY}/issues/1/comments", {}, {"text": "x"}),
    ],
)
def test_what_github_would_refuse_is_found(
    method: str, path: str, query: dict[str, str], body: Any
) -> None:
    assert DESCRIPTION.wrong_request(operation(method, path), query, body)


def test_what_github_would_not_send_is_found() -> None:
    read = operation("GET", f"{PULLS}/1")
    whole = DESCRIPTION.schema("pull-request")
    assert DESCRIPTION.wrong_response(read, 200, whole) == []
    assert DESCRIPTION.wrong_response(read, 200, {**whole, "number": "1"})
    assert DESCRIPTION.wrong_response(read, 200, {"number": 1})
    assert DESCRIPTION.wrong_response(read, 204, {}) == ["no response 204"]


@pytest.fixture(scope="module")
def mock() -> Iterator[str]:
    """A Prism that answers by the description, and refuses what does not follow it."""
    folder = installed(Path(__file__).with_name("prism"))
    port = free_port()
    program = folder / "node_modules" / "@stoplight" / "prism-cli" / "dist" / "index.js"
    command = [node(), str(program), "mock", "--errors", "--port", str(port), str(FACTS)]
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "NO_UPDATE_NOTIFIER": "1"},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            assert process.poll() is None
            try:
                httpx2.get(f"{url}{PULLS}/1", trust_env=False)
                break
            except httpx2.TransportError:
                time.sleep(0.1)
        else:
            raise AssertionError("Prism does not answer.")
        yield url
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def github(mock: str) -> GitHub:
    place = ForgePlace("github", mock, REPOSITORY)
    made = connect(place, ForgeSettings(), {"GITHUB_TOKEN": "x"})
    assert isinstance(made, GitHub)
    return made


@pytest.mark.long
@pytest.mark.xdist_group("prism")
def test_every_request_is_one_that_github_describes(github: GitHub) -> None:
    opened = github.open(DRAFT)
    assert opened.state in ("open", "merged")
    assert github.read(opened.number).number == opened.number
    github.of_branch(DRAFT.branch)
    github.opened()
    github.edit(1, "new")
    github.close(1, "Superseded.", "no such comment")
    github.tag(opened, ["agent"])
    assert github.ask(1, ["ada", "acme/owners"]) == ""
    assert github.is_protected("main") in (True, False)


@pytest.mark.long
@pytest.mark.xdist_group("prism")
def test_the_mock_refuses_what_does_not_follow_the_description(github: GitHub) -> None:
    http: ForgeHttp = github._http
    with pytest.raises(ForgeRefused) as error:
        http.send("POST", PULLS, {"head": "a"}, object)
    assert error.value.status == 422
