"""Merge requests on GitLab: the same steps, and its own ways to refuse."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet.ship.forges import open_revert, refresh_request, with_request, withdraw
from ratchet.ship.forges.http import ForgeRefused
from ratchet.types import ShipError


def test_a_release_becomes_a_merge_request_and_stays_one(at_gitlab: Any) -> None:
    release = at_gitlab.released()
    wanted = {"labels": ("agent",), "reviewers": ("ada", "eve"), "draft": True}
    request = at_gitlab.propose(release, **wanted)
    assert request.url == "https://gitlab.test/acme/team/helper/-/merge_requests/1"
    assert request.note == "GitLab does not know eve."
    (opened,) = at_gitlab.forge.requests
    assert opened.title == "Draft: Improve retrieval: exact_match +0.0750"
    assert opened.labels == ["agent"]
    assert at_gitlab.forge.reviewers[1] == [11]
    done = list(at_gitlab.forge.writes)
    assert at_gitlab.propose(with_request(release, request), **wanted).number == 1
    assert at_gitlab.forge.writes == done


def test_a_newer_release_supersedes_the_merge_request(at_gitlab: Any) -> None:
    at_gitlab.propose(at_gitlab.released())
    request = at_gitlab.propose(at_gitlab.released(9, "experiment-2"))
    old, new = at_gitlab.forge.requests
    assert (old.state, new.state) == ("closed", "open")
    assert [text.partition("\n")[0] for text in old.comments] == [
        f"Superseded by {request.url}, which changes the same resource and was proved later."
    ]


def test_a_merged_request_is_reverted_by_another(at_gitlab: Any) -> None:
    release = at_gitlab.released()
    release = with_request(release, at_gitlab.propose(release))
    at_gitlab.merge(1)
    root, settings = at_gitlab.project.root, at_gitlab.settings
    merged = refresh_request(release, root, settings, environ=at_gitlab.environ)
    assert merged.state == "merged"
    undone = open_revert(merged, root, "Scores fell.", settings, environ=at_gitlab.environ)
    assert undone.state == "rolled_back"
    assert undone.revert is not None
    assert undone.revert.number == 2
    assert "Scores fell." in at_gitlab.forge.requests[1].body


def test_a_withdrawn_request_is_closed_with_one_comment(at_gitlab: Any) -> None:
    release = at_gitlab.released()
    release = with_request(release, at_gitlab.propose(release))
    at_gitlab.forge.fail("PUT", "merge_requests/1", 403)
    root, settings = at_gitlab.project.root, at_gitlab.settings
    with pytest.raises(ForgeRefused, match="may not do this"):
        withdraw(release, root, "Not now.", settings, environ=at_gitlab.environ)
    closed = withdraw(release, root, "Not now.", settings, environ=at_gitlab.environ)
    assert closed.request is not None
    assert closed.request.state == "closed"
    assert len(at_gitlab.forge.requests[0].comments) == 1


def test_a_request_that_exists_is_adopted(at_gitlab: Any) -> None:
    release = at_gitlab.released()
    at_gitlab.forge.fail("POST", "merge_requests", 0, after=True)
    assert at_gitlab.propose(release).number == 1
    assert len(at_gitlab.forge.requests) == 1


def test_a_branch_that_is_not_known_yet_is_waited_for(at_gitlab: Any, pauses: list[float]) -> None:
    at_gitlab.forge.fail(
        "POST", "merge_requests", 400, {"message": ["Source branch does not exist"]}, times=2
    )
    assert at_gitlab.propose(at_gitlab.released()).number == 1
    assert pauses == [1.0, 2.0]


def test_messages_in_all_of_its_forms_are_shown(at_gitlab: Any) -> None:
    release = at_gitlab.released()
    for body, shown in [
        ({"message": {"title": ["is too long"]}}, "title: is too long"),
        ({"error": "title is invalid"}, "title is invalid"),
        ({"message": ["a", "b"]}, "a; b"),
        ({"error": "x", "error_description": "scope"}, "x; scope"),
    ]:
        at_gitlab.forge.fail("POST", "merge_requests", 422, body)
        with pytest.raises(ShipError, match=shown):
            at_gitlab.propose(release)
