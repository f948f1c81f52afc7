"""Failures at every step: what is said, what is kept, and that the next call goes on."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.ship.forges.conftest import run
from tests.ship.forges.fake_forge import Fault

from ratchet.ship.forges.http import MAX_TRIES, ForgeHttp
from ratchet.ship.remote import Remote
from ratchet.ship.repository import Repository
from ratchet.types import ConfigError, ForgeUnavailable, ShipError


def test_a_missing_token_is_named_before_anything_is_pushed(at_github: Any) -> None:
    release = at_github.released()
    at_github.environ.clear()
    with pytest.raises(ConfigError, match="GITHUB_TOKEN is not set"):
        at_github.propose(release)
    at_github.environ["MINE"] = "two words"
    with pytest.raises(ConfigError, match="value of MINE is not a token"):
        at_github.propose(release, token_env="MINE")
    assert at_github.tip(release.branch) == ""


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (422, {"message": "odd token secret-token-1"}, "status 422 .odd token …"),
        (
            401,
            {"message": "Bad credentials"},
            "refuses the token from GITHUB_TOKEN .Bad credential",
        ),
        (
            403,
            {"message": "Resource not accessible by personal access token"},
            "may not do this in acme/helper .Resource not .* read and write access to pull",
        ),
        (
            404,
            {"message": "Not Found"},
            "cannot find /repos/acme/helper/pulls, or the token from GITHUB_TOKEN may not see it",
        ),
        (301, {"message": "Moved Permanently"}, "acme/helper has moved.*git remote set-url"),
    ],
)
def test_a_refusal_says_what_to_do_and_pushes_nothing(
    at_github: Any, status: int, body: Any, says: str
) -> None:
    release = at_github.released()
    at_github.forge.fail("GET", "/pulls", status, body)
    with pytest.raises(ShipError, match=says) as error:
        at_github.propose(release)
    assert at_github.forge.token not in str(error.value)
    assert at_github.tip(release.branch) == ""
    assert at_github.propose(release).number == 1


def test_a_token_that_expires_midway_loses_nothing(at_github: Any) -> None:
    release = at_github.released()
    at_github.forge.fail("POST", "/pulls", 401, {"message": "Bad credentials"})
    with pytest.raises(ShipError, match="expired or revoked: renew it, then run the same"):
        at_github.propose(release)
    assert at_github.tip(release.branch) == release.commit
    assert at_github.propose(release).number == 1


@pytest.mark.parametrize(
    ("status", "headers", "message", "seconds"),
    [
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "+1800"}, "limit", 1800),
        (429, {"retry-after": "75"}, "Too many requests", 75),
        (403, {}, "You have exceeded a secondary rate limit", 60),
    ],
)
def test_a_rate_limit_says_when_to_come_again(
    at_github: Any, status: int, headers: dict[str, str], message: str, seconds: float
) -> None:
    release = at_github.released()
    now = time.time()
    if "x-ratelimit-reset" in headers:
        headers = {**headers, "x-ratelimit-reset": str(int(now + seconds))}
    at_github.forge.fail("POST", "/pulls", status, {"message": message}, headers=headers)
    # A limit applies to the look for a request that was opened, too.
    at_github.forge.fail("GET", "/pulls", 200, [], times=2)
    at_github.forge.fail("GET", "/pulls", status, {"message": message}, headers=headers)
    with pytest.raises(ForgeUnavailable, match="asks for a wait") as error:
        at_github.propose(release)
    assert error.value.retry_at == pytest.approx(now + seconds, abs=30)
    at_github.forge.faults.clear()
    assert at_github.propose(release).number == 1


def test_an_outage_of_an_hour_keeps_the_release(at_github: Any) -> None:
    release = at_github.released()
    for status in (500, 503, 0):
        at_github.forge.fail("GET", "/pulls", status, times=MAX_TRIES)
        now = time.time()
        with pytest.raises(ForgeUnavailable, match="again later to continue") as error:
            at_github.propose(release)
        assert error.value.retry_at >= now + 60
    assert at_github.propose(release).number == 1
    assert at_github.project.git("rev-parse", release.branch) == release.commit


def test_a_response_that_is_no_json_is_an_outage(at_github: Any) -> None:
    at_github.forge.fail("GET", "/pulls", 200, b"<html>proxy</html>", times=MAX_TRIES)
    with pytest.raises(ForgeUnavailable, match="not JSON"):
        at_github.propose(at_github.released())


@pytest.mark.parametrize("body", [{}, [{"number": "1"}], "text"])
def test_a_server_that_is_not_the_forge_is_told_from_it(at_github: Any, body: Any) -> None:
    release = at_github.released()
    at_github.forge.faults.append(Fault("GET", "/pulls", (200, {}, body)))
    with pytest.raises(ShipError, match=r"an unexpected response: .*set api_url"):
        at_github.propose(release)
    assert at_github.tip(release.branch) == ""


def test_a_connection_that_hangs_is_given_up(at_github: Any) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ForgeUnavailable, match="cannot be reached"):
            at_github.propose(at_github.released(), api_url=url, timeout_s=0.05)


def test_a_lost_response_opens_no_second_request(at_github: Any) -> None:
    release = at_github.released()
    at_github.forge.fail("POST", "/pulls", 0, after=True)
    assert at_github.propose(release).number == 1
    assert len(at_github.forge.requests) == 1


def test_a_request_that_someone_opened_at_the_same_time_is_adopted(at_github: Any) -> None:
    release = at_github.released()
    at_github.propose(release)
    at_github.forge.fail("GET", "/pulls", 200, [])  # it was not there a moment ago
    assert at_github.propose(release).number == 1
    assert len(at_github.forge.requests) == 1


def test_drafts_are_opened_plain_where_the_plan_has_none(at_github: Any) -> None:
    at_github.forge.drafts = False
    assert at_github.propose(at_github.released(), draft=True).number == 1
    assert at_github.forge.requests[0].draft is False


def test_reviewers_who_cannot_be_asked_do_not_stop_it(at_github: Any) -> None:
    request = at_github.propose(at_github.released(), reviewers=("author",))
    assert request.number == 1
    assert "Review cannot be requested from pull request author" in request.note


@pytest.mark.parametrize(
    ("errors", "says"),
    [
        ([{"resource": "PullRequest", "field": "base", "code": "invalid"}], "has no branch main"),
        ([{"resource": "PullRequest", "field": "head", "code": "invalid"}], "cannot find the br"),
        (["No commits between main and x"], "already has this change"),
    ],
)
def test_other_refusals_of_a_new_request_are_told_apart(
    at_github: Any, errors: list[Any], says: str
) -> None:
    body = {"message": "Validation Failed", "errors": errors}
    at_github.forge.fail("POST", "/pulls", 422, body)
    with pytest.raises(ShipError, match=says):
        at_github.propose(at_github.released())


def test_a_repository_without_the_remote_says_so(at_github: Any) -> None:
    release = at_github.released()
    with pytest.raises(ShipError, match="no remote 'upstream'; it has origin"):
        at_github.propose(release, remote="upstream")
    at_github.project.git("remote", "remove", "origin")
    with pytest.raises(ShipError, match=r"no remote 'origin'\. Add one: git remote add"):
        at_github.propose(release)


def test_a_remote_that_is_gone_is_named(at_github: Any, tmp_path: Path) -> None:
    release = at_github.released()
    at_github.remote.rename(tmp_path / "moved.git")
    with pytest.raises(ShipError, match="does not exist, or is hidden from you"):
        at_github.propose(release)


def test_a_push_that_is_refused_says_why(at_github: Any) -> None:
    release = at_github.released()
    hook = at_github.remote / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'only on Mondays' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(ShipError, match=r"has rules that refuse the branch: .*only on Mondays"):
        at_github.propose(release)
    assert at_github.forge.requests == []
    hook.unlink()
    assert at_github.propose(release).number == 1


def test_a_branch_with_other_content_at_the_remote_is_not_overwritten(at_github: Any) -> None:
    release = at_github.released()
    clone = at_github.elsewhere()
    (clone / "agent.py").write_text("# other\n")
    run(clone, "commit", "--quiet", "--all", "--message", "other")
    run(clone, "push", "--quiet", "origin", f"HEAD:{release.branch}")
    theirs = at_github.tip(release.branch)
    with pytest.raises(ShipError, match=r"has other commits.*ever pushed by force"):
        at_github.propose(release)
    assert at_github.tip(release.branch) == theirs


def test_a_protected_branch_is_not_pushed_to(at_github: Any) -> None:
    release = at_github.released()
    at_github.propose(release)
    at_github.forge.protected.add(release.branch)
    with pytest.raises(ShipError, match="is protected"):
        at_github.propose(release, evidence=True)
    assert at_github.tip(release.branch) == release.commit


@pytest.mark.parametrize("branch", ["main", "ratchet/base", "feature"])
def test_only_release_branches_are_pushed_and_never_the_base(at_github: Any, branch: str) -> None:
    remote = Remote(Repository.open(at_github.project.root), "origin")
    head = at_github.project.git("rev-parse", "HEAD")
    with pytest.raises(ShipError, match="Only branches named ratchet/"):
        remote.push(head, branch, "ratchet/base")


def test_a_push_to_a_branch_that_moved_is_rejected_not_forced(at_github: Any) -> None:
    release = at_github.released()
    clone = at_github.elsewhere()
    (clone / "new.txt").write_text("x")
    run(clone, "add", "--all")
    run(clone, "commit", "--quiet", "--message", "other")
    run(clone, "push", "--quiet", "origin", f"HEAD:{release.branch}")
    remote = Remote(Repository.open(at_github.project.root), "origin")
    with pytest.raises(ShipError, match="has other commits on that branch"):
        remote.push(release.commit, release.branch, "main")


@contextmanager
def closed_port() -> Iterator[int]:
    """A port of loopback that refuses connections while it is held."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_a_remote_that_cannot_be_reached_is_tried_later(at_github: Any) -> None:
    release = at_github.released()
    with closed_port() as port:
        url = f"http://ada:hunter2@127.0.0.1:{port}/acme/helper.git"
        at_github.project.git("remote", "set-url", "origin", url)
        with pytest.raises(ForgeUnavailable, match="cannot be reached") as error:
            at_github.propose(release)
    assert "hunter2" not in str(error.value)


def killed_after(step: int, action: Callable[[], Any]) -> bool:
    """Run an action in a child that is killed after its n-th exchange with the remote or forge."""
    child = os.fork()
    if child == 0:
        left = step

        def counted(function: Any) -> Any:
            def call(*arguments: Any, **options: Any) -> Any:
                nonlocal left
                answer = function(*arguments, **options)
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
                return answer

            return call

        code = 1
        try:
            ForgeHttp._once = counted(ForgeHttp._once)  # type: ignore[method-assign]
            Remote._git = counted(Remote._git)  # type: ignore[method-assign]
            action()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.waitstatus_to_exitcode(status) == 0
    return False


def test_killed_anywhere_and_called_again_it_ends_in_one_request(at_github: Any) -> None:
    older, release = at_github.released(9, "experiment-0"), at_github.released()
    wanted = {"labels": ("agent",), "reviewers": ("ada",)}
    step = 0
    while True:
        at_github.propose(older)
        killed = killed_after(step, lambda: at_github.propose(release, **wanted))
        at_github.propose(release, **wanted)
        assert at_github.tip(release.branch) == release.commit
        old, new = at_github.forge.requests
        assert (old.state, len(old.comments)) == ("closed", 1)
        assert (new.state, new.labels, new.reviewers) == ("open", ["agent"], ["ada"])
        if not killed:
            break
        step += 1
        for branch in (older.branch, release.branch):
            run(at_github.remote, "update-ref", "-d", f"refs/heads/{branch}")
        at_github.forge.requests.clear()
    assert step >= 8
