"""The pushed branch: a base that moved, the evidence, and git over HTTP."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.ship.forges.conftest import run

from ratchet.ship import TestCommand
from ratchet.ship.forges import open_revert, propose, refresh_request, with_request
from ratchet.ship.forges.marker import marker_of
from ratchet.types import Candidate, Declaration, ForgeUnavailable, PromptTemplate, ShipError

KNOB = "k=ratchet.Int(5, 1, 20)"


def shown(published: Any, revision: str, path: str = "agent.py") -> str:
    return run(published.remote, "show", f"{revision}:{path}")


def parents(published: Any, commit: str) -> list[str]:
    return run(published.remote, "rev-list", "--parents", "-n", "1", commit).split()[1:]


def test_a_base_that_moved_elsewhere_needs_no_new_commit(at_github: Any) -> None:
    release = at_github.released()
    at_github.push_elsewhere(lambda text: text + "\n\n# the end\n")
    assert at_github.propose(release).head == release.commit


def test_a_base_that_moved_beside_the_change_is_merged_with_the_change_made_anew(
    at_github: Any,
) -> None:
    release = at_github.released()
    request = at_github.propose(release)
    theirs = at_github.push_elsewhere(lambda text: text.replace("threshold=0.3", "threshold=0.4"))
    again = at_github.propose(with_request(release, request))
    assert at_github.tip(release.branch) == again.head != request.head
    assert parents(at_github, again.head) == [release.commit, theirs]
    changed = run(at_github.remote, "diff", "--unified=0", theirs, again.head).splitlines()
    assert [line for line in changed if line[:2] in ("-K", "+K")] == [
        '-KNOBS = ratchet.params("retrieval", k=ratchet.Int(5, 1, 20), threshold=0.4)',
        '+KNOBS = ratchet.params("retrieval", k=ratchet.Int(7, 1, 20), threshold=0.4)',
    ]
    marker = marker_of(at_github.forge.requests[0].body)
    assert marker is not None
    assert marker.head == again.head
    done = list(at_github.forge.writes)
    assert at_github.propose(with_request(release, again)) == again
    assert at_github.forge.writes == done
    assert at_github.project.git("rev-parse", release.branch) == release.commit


def test_the_change_on_a_moved_base_is_tested_again(at_github: Any) -> None:
    release = at_github.released()
    at_github.push_elsewhere(
        lambda text: text.replace("threshold=0.3", "threshold=0.4").replace("docs[0]", "docs[1]")
    )
    tests = TestCommand(command="grep -q docs.0. agent.py", sandbox=False)
    arguments = {"tests": tests, "environ": at_github.environ}
    root, settings = at_github.project.root, at_github.settings
    with pytest.raises(ShipError, match=r"pull request's base has moved on.*Nothing was pushed"):
        propose(release, root, settings, **arguments)
    assert at_github.tip(release.branch) == ""


def test_a_base_in_which_the_resource_itself_changed_is_refused(at_github: Any) -> None:
    release = at_github.released()
    at_github.push_elsewhere(lambda text: text.replace("Int(5,", "Int(6,"))
    with pytest.raises(ShipError, match=r"retrieval\.k differs in .*prove it again"):
        at_github.propose(release)
    assert at_github.tip(release.branch) == ""


def test_commits_that_are_not_pushed_are_not_brought_along(at_github: Any) -> None:
    at_github.project.write("more.py", "x = 1\n")
    at_github.project.commit("not pushed")
    release = at_github.released()
    with pytest.raises(ShipError, match=r"is not in main of the remote origin.*Push that commit"):
        at_github.propose(release)
    at_github.project.git("push", "--quiet", "origin", "main")
    assert at_github.propose(release).number == 1


def test_a_release_that_is_in_the_base_is_not_proposed(at_github: Any) -> None:
    release = at_github.released()
    at_github.project.git("push", "--quiet", "origin", f"{release.commit}:refs/heads/main")
    with pytest.raises(ShipError, match="main of the remote origin already has the release"):
        at_github.propose(release)


def test_the_evidence_is_one_more_commit(at_github: Any) -> None:
    release = at_github.released()
    request = at_github.propose(release, evidence=True)
    assert parents(at_github, request.head) == [release.commit]
    path = ".ratchet-evidence/experiment-1.json"
    changed = run(at_github.remote, "diff", "--name-only", release.commit, request.head)
    assert changed == path
    assert json.loads(shown(at_github, request.head, path)) == {}
    assert at_github.propose(release, evidence=True).head == request.head
    at_github.push_elsewhere(lambda text: text.replace("threshold=0.3", "threshold=0.4"))
    merged = at_github.propose(release, evidence=True)
    assert merged.note == ""
    assert shown(at_github, merged.head, path) == "{}"
    assert at_github.propose(release, evidence=True) == merged


def test_evidence_that_is_gone_is_said(at_github: Any) -> None:
    release = at_github.released()
    Path(release.evidence).unlink()
    with pytest.raises(ShipError, match=r"evidence file .* cannot be read.*evidence = false"):
        at_github.propose(release, evidence=True)
    assert at_github.propose(release).number == 1


def test_a_revert_starts_from_the_remotes_base_and_is_opened_once(at_github: Any) -> None:
    release = at_github.released()
    release = with_request(release, at_github.propose(release))
    at_github.merge(1)
    theirs = at_github.push_elsewhere(lambda text: text + "# later\n")
    root, settings = at_github.project.root, at_github.settings
    release = refresh_request(release, root, settings, environ=at_github.environ)
    before = at_github.project.state()
    at_github.forge.fail("POST", "/pulls", 401)
    arguments = {"environ": at_github.environ}
    with pytest.raises(ShipError, match="refuses the token"):
        open_revert(release, root, "Scores fell.", settings, **arguments)
    undone = open_revert(release, root, "Scores fell.", settings, **arguments)
    assert open_revert(undone, root, "Scores fell.", settings, **arguments) == undone
    assert at_github.project.state() == before
    assert undone.revert is not None
    assert (undone.state, undone.revert.number) == ("rolled_back", 2)
    assert parents(at_github, undone.revert.head) == [theirs]
    assert KNOB in shown(at_github, undone.revert.head)
    assert "# later" in shown(at_github, undone.revert.head)
    assert len(at_github.forge.requests) == 2


def test_a_release_that_is_not_merged_is_not_reverted(at_github: Any) -> None:
    release = at_github.released()
    release = with_request(release, at_github.propose(release))
    with pytest.raises(Exception, match="is proposed: there is nothing to revert"):
        open_revert(
            release, at_github.project.root, "", at_github.settings, environ=at_github.environ
        )


class GitServer:
    """`git http-backend` behind a password, on loopback."""

    def __init__(self, folder: Path, password: str) -> None:
        self.seen: list[str] = []
        expected = "Basic " + base64.b64encode(f"ada:{password}".encode()).decode()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length)
                server.seen.append(self.path)
                if self.headers.get("authorization") != expected:
                    self.send_response(401)
                    self.send_header("www-authenticate", 'Basic realm="git"')
                    self.send_header("content-length", "0")
                    self.end_headers()
                    return
                path, _, query = self.path.partition("?")
                environ = {
                    **os.environ,
                    "GIT_PROJECT_ROOT": str(folder),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": self.headers.get("content-type") or "",
                    "CONTENT_LENGTH": str(length),
                    "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding") or "",
                    "GIT_PROTOCOL": self.headers.get("git-protocol") or "",
                    "REMOTE_USER": "ada",
                }
                done = subprocess.run(
                    ["git", "http-backend"],
                    input=body,
                    capture_output=True,
                    env=environ,
                    check=True,
                )
                head, _, content = done.stdout.partition(b"\r\n\r\n")
                fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
                self.send_response(int(fields.pop("Status", "200").split()[0]))
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def git_server(bare: Path) -> Iterator[GitServer]:
    run(bare, "config", "http.receivepack", "true")
    server = GitServer(bare.parent, "hunter2")
    yield server
    server.stop()


def test_the_users_own_credential_helper_is_used_over_http(
    at_github: Any, git_server: GitServer, tmp_path: Path
) -> None:
    release = at_github.released()
    url = f"http://{git_server.address}/remote.git"
    at_github.project.git("remote", "set-url", "origin", url)
    with pytest.raises(ShipError, match=r"does not accept git's credentials.*credential helper"):
        at_github.propose(release)
    helper = tmp_path / "helper"
    helper.write_text("#!/bin/sh\necho username=ada\necho password=hunter2\n")
    helper.chmod(0o755)
    at_github.project.git("config", "credential.helper", str(helper))
    assert at_github.propose(release).number == 1
    assert at_github.tip(release.branch) == release.commit
    assert any("git-receive-pack" in path for path in git_server.seen)


def ssh(folder: Path, body: str) -> str:
    """A program in place of ssh."""
    program = folder / "ssh"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return str(program)


def over_ssh(published: Any, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    program = ssh(published.remote.parent, body)
    monkeypatch.setenv("GIT_SSH_COMMAND", program)
    url = f"ssh://git@github.test:2222{published.remote}"
    published.project.git("remote", "set-url", "origin", url)


def test_a_remote_over_ssh_is_pushed_to_by_the_users_own_ssh(
    at_github: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = at_github.released()
    over_ssh(at_github, monkeypatch, 'for last; do :; done; eval "$last"')
    assert at_github.propose(release).number == 1
    assert at_github.tip(release.branch) == release.commit


def test_an_ssh_key_that_is_refused_is_said(
    at_github: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = at_github.released()
    refusal = "echo 'git@github.test: Permission denied (publickey).' >&2; exit 255"
    over_ssh(at_github, monkeypatch, refusal)
    with pytest.raises(ShipError, match=r"does not accept git's credentials.*ssh key"):
        at_github.propose(release)


def test_an_ssh_that_hangs_is_ended_with_all_it_started(
    at_github: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    release = at_github.released()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    over_ssh(at_github, monkeypatch, f"exec 9>{pipe}; sleep 600 & wait")
    monkeypatch.setattr("ratchet.ship.remote.TIMEOUT_S", 0.5)
    with pytest.raises(ForgeUnavailable, match="did not answer within"):
        at_github.propose(release)
    # The end of the pipe: no process holds its other side.
    os.set_blocking(held, True)
    assert os.read(held, 1) == b""
    os.close(held)


PROMPT = "You are a booking assistant for ACME. Answer in one sentence."


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("agent.js", f'const a = 1;\nconst prompt = "{PROMPT}";\nconst b = 2;\n'),
        ("prompts.yaml", f"a: 1\nsystem: {PROMPT}\nb: 2\n"),
    ],
)
def test_a_prompt_known_by_its_text_is_made_anew_on_a_moved_base(
    at_github: Any, file: str, source: str
) -> None:
    project = at_github.project
    project.write(file, source)
    project.commit()
    project.git("push", "--quiet", "origin", "main")
    before, after = PromptTemplate(PROMPT), PromptTemplate(PROMPT.replace("one", "two"))
    baseline = Candidate.of({"system": before})
    release = project.ship(
        baseline.derive({"system": after}, algorithm="APO"),
        baseline=baseline,
        declarations={"system": Declaration("system", before, located_by="text")},
        agent_entry="node agent.js",
    )
    project.file = file
    theirs = at_github.push_elsewhere(
        lambda text: text.replace("a = 1", "a = 10").replace("a: 1", "a: 10")
    )
    request = at_github.propose(release)
    assert parents(at_github, request.head) == [release.commit, theirs]
    moved = run(at_github.remote, "show", f"{theirs}:{file}")
    assert shown(at_github, request.head, file) == moved.replace("one sentence", "two sentence")
