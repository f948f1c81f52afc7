"""Pull requests: opened once, brought up to date, and left alone where a person decided."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet.ship.forges import with_request
from ratchet.ship.forges.marker import marker_of
from ratchet.types import ForgeUnavailable, ShipError


def test_a_release_is_pushed_and_its_request_opened(at_github: Any) -> None:
    release = at_github.released()
    before = at_github.project.state()
    request = at_github.propose(release, labels=("agent",), reviewers=("ada", "acme/owners"))
    assert at_github.project.state() == before
    assert (request.number, request.state, request.note) == (1, "open", "")
    assert request.url == "https://github.test/acme/helper/pull/1"
    assert at_github.tip(release.branch) == request.head == release.commit
    (opened,) = at_github.forge.requests
    assert opened.title == "Improve retrieval: exact_match +0.0750"
    assert (opened.branch, opened.base, opened.draft) == (release.branch, "main", False)
    assert (opened.labels, opened.reviewers) == (["agent"], ["ada", "owners"])
    assert "ratchet verify" in opened.body
    assert not opened.body.startswith("# ")
    marker = marker_of(opened.body)
    assert marker is not None
    assert (marker.release, marker.resources) == (release.id, ("retrieval",))
    assert (marker.base, marker.head) == (release.base, release.commit)
    stored = with_request(release, request)
    assert (stored.state, stored.request) == ("proposed", request)


def test_a_second_call_writes_nothing(at_github: Any) -> None:
    release = at_github.released()
    request = at_github.propose(release, labels=("agent",))
    done = list(at_github.forge.writes)
    again = with_request(release, request)
    assert at_github.propose(again, labels=("agent",)) == request
    assert at_github.propose(release, labels=("agent",)) == request
    assert at_github.forge.writes == done


def test_a_changed_text_is_rewritten_in_place(at_github: Any) -> None:
    from pathlib import Path

    release = at_github.released()
    request = at_github.propose(release)
    opened = at_github.forge.requests[0]
    opened.body = f"A person's preface.\r\n\r\n{opened.body}\r\nA person's end."
    opened.title = "A person's title"
    path = Path(release.pull_request)
    path.write_text(path.read_text() + "\nOne more sentence.\n")
    again = at_github.propose(with_request(release, request))
    assert again == request
    assert at_github.forge.writes[-1] == "PATCH /repos/acme/helper/pulls/1"
    assert "One more sentence." in opened.body
    assert opened.body.startswith("A person's preface.")
    assert opened.body.strip().endswith("A person's end.")
    assert opened.title == "A person's title"
    assert opened.body.count("ratchet:begin") == 1


def test_a_text_without_its_marker_is_a_persons(at_github: Any) -> None:
    release = at_github.released()
    request = at_github.propose(release)
    at_github.forge.requests[0].body = "All new."
    assert at_github.propose(with_request(release, request)) == request
    assert at_github.forge.requests[0].body == "All new."


def test_a_closed_request_is_a_no(at_github: Any) -> None:
    release = at_github.released()
    request = at_github.propose(release)
    at_github.forge.requests[0].state = "closed"
    done = list(at_github.forge.writes)
    for now in (release, with_request(release, request)):
        closed = at_github.propose(now)
        assert closed.state == "closed"
        assert "counts as a refusal" in closed.note
        assert with_request(now, closed).state == "closed"
    assert at_github.forge.writes == done
    assert len(at_github.forge.requests) == 1


def test_a_merged_request_is_read(at_github: Any) -> None:
    release = at_github.released()
    at_github.propose(release)
    at_github.merge(1)
    merged = at_github.propose(release)
    assert merged.state == "merged"
    assert with_request(release, merged).state == "merged"


def test_a_candidate_that_was_merged_and_taken_back_may_be_proposed_again(at_github: Any) -> None:
    earlier = at_github.released()
    at_github.propose(earlier)
    at_github.merge(1)
    project = at_github.project
    project.git("branch", "-D", earlier.branch)
    project.git("push", "--quiet", "origin", "--delete", earlier.branch)
    project.git("pull", "--quiet", "origin", "main")
    project.git("revert", "--no-edit", "--mainline", "1", "HEAD")
    project.git("push", "--quiet", "origin", "main")
    again = project.load() and at_github.released(experiment="experiment-2")
    assert again.branch == earlier.branch
    assert at_github.propose(again).number == 2
    assert at_github.propose(again).number == 2


def test_a_newer_release_of_the_resource_supersedes_the_request(at_github: Any) -> None:
    first = at_github.released()
    at_github.propose(first)
    second = at_github.released(9, "experiment-2")
    request = at_github.propose(second)
    assert request.number == 2
    old, new = at_github.forge.requests
    assert (old.state, new.state) == ("closed", "open")
    (comment,) = old.comments
    assert comment.startswith(f"Superseded by {request.url}")
    done = list(at_github.forge.writes)
    at_github.propose(second)
    assert at_github.forge.writes == done


def test_requests_for_other_resources_stay_open_up_to_a_limit(at_github: Any) -> None:
    at_github.propose(at_github.released())
    other = at_github.project.ship(at_github.project.candidate(system="Be brief. {policy}"))
    with pytest.raises(ForgeUnavailable, match=r"1 pull requests are open .*max_open"):
        at_github.propose(other, max_open=1)
    assert at_github.tip(other.branch) == ""
    assert at_github.propose(other, max_open=2).number == 2
    assert [each.state for each in at_github.forge.requests] == ["open", "open"]
    # What is open already is kept up to date, whatever the limit is by now.
    assert at_github.propose(other, max_open=1).number == 2


def test_a_request_with_a_persons_commit_is_left_alone(at_github: Any) -> None:
    release = at_github.released()
    request = at_github.propose(release)
    theirs = at_github.push_elsewhere(lambda text: text + "# mine\n", release.branch)
    done = list(at_github.forge.writes)
    again = at_github.propose(with_request(release, request), evidence=True)
    assert "commits that Ratchet did not make" in again.note
    assert (again.state, again.head) == ("open", theirs)
    assert at_github.forge.writes == done
    assert at_github.tip(release.branch) == theirs
    newer = at_github.released(9, "experiment-2")
    with pytest.raises(ShipError, match=r"pull/1 is open for the same resource.*Merge or close"):
        at_github.propose(newer)
    assert at_github.tip(newer.branch) == ""


def test_a_fork_cannot_pose_as_a_request_of_ours(at_github: Any) -> None:
    release = at_github.released()
    at_github.propose(release)
    at_github.forge.requests[0].fork = True
    at_github.forge.requests[0].state = "closed"
    assert at_github.propose(release).number == 2
