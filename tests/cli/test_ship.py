"""`ratchet ship`, `releases` and `rollback` with a remote and a forge."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CONFIG, INLINE, MakeProject, Project
from tests.ship.forges.fake_github import REPOSITORY, FakeGitHub

SHIP = """
[ship]
forge = "github"
repository = "{repository}"
api_url = "{url}"
labels = ["agent"]
server_url = "https://ratchet.example"
{more}
"""


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[FakeGitHub]:
    bare = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "-b", "main", "--bare", str(bare)], check=True)
    forge = FakeGitHub(bare)
    yield forge
    forge.stop()
    assert forge.violations == []


def project_at(make_project: MakeProject, forge: FakeGitHub, more: str = "") -> Project:
    section = SHIP.format(repository=REPOSITORY, url=forge.url, more=more)
    project = make_project(config=CONFIG + INLINE + section)
    project.git("remote", "add", "origin", str(forge.git))
    project.git("push", "-q", "origin", "main")
    return project


def ship(project: Project, *arguments: str, token: str = "secret-token-1") -> Any:
    done = project.ratchet("ship", *arguments, env={"GITHUB_TOKEN": token})
    assert token not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_a_dry_run_shows_the_text_and_what_is_missing_where_nothing_could_be_sent(
    make_project: MakeProject,
) -> None:
    project = make_project()
    project.json("improve")
    done = project.ratchet("ship", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "Nothing can be sent yet:" in done.stdout
    assert "origin" in done.stdout
    assert "## The proof" in done.stdout
    shown = project.json("ship", "--dry-run")
    assert (shown["request"]["url"], bool(shown["obstacle"])) == ("", True)
    refused = project.ratchet("ship")
    assert (refused.returncode, "origin" in refused.stderr) == (5, True)


def test_a_release_goes_from_branch_to_request_to_merge_to_revert(
    make_project: MakeProject, forge: FakeGitHub
) -> None:
    project = project_at(make_project, forge)
    token = {"GITHUB_TOKEN": forge.token}
    improved = project.json("improve")
    assert improved["verdict"] == "promote"

    preview = json.loads(ship(project, "--dry-run", "--json").stdout)
    assert preview["request"]["url"] == f"{forge.url}/repos/{REPOSITORY}/pulls"
    assert forge.sent == []
    text = ship(project, "--dry-run").stdout
    assert "-KNOBS" in text
    assert "What failed" in text
    assert f"POST {forge.url}" in text

    done = ship(project)
    assert done.returncode == 0, done.stderr
    assert "https://github.test/acme/helper/pull/1" in done.stdout
    (request,) = forge.requests
    assert (request.branch, request.labels) == (improved["branch"], ["agent"])
    assert "](https://ratchet.example/v1/rollouts/" in request.body
    assert "xychart-beta" in request.body
    shown = request.body.partition("<details>")[0]
    assert shown.count("\n") <= 60
    writes = list(forge.writes)
    assert ship(project).returncode == 0
    assert forge.writes == writes

    (release,) = _releases(project, token)
    assert release["state"] == "proposed"
    assert release["request"]["number"] == 1
    # Without a token the list is as it was last read, and says so.
    done = project.ratchet("releases", "--json", env={"GITHUB_TOKEN": ""})
    assert json.loads(done.stdout)["releases"][0]["state"] == "proposed"
    assert "GITHUB_TOKEN is not set" in done.stderr

    _merge(project, forge)
    (release,) = _releases(project, token)
    assert release["state"] == "merged"

    done = project.ratchet("rollback", "--json", env=token)
    assert done.returncode == 0, done.stderr
    undone = json.loads(done.stdout)
    assert undone["state"] == "rolled_back"
    assert undone["revert"]["number"] == 2
    branch = undone["rollback"]
    assert forge.tip(branch) == undone["revert"]["head"]
    remote = ["git", "-C", str(forge.git), "show"]
    restored = subprocess.run([*remote, f"{branch}:agent.py"], capture_output=True, check=True)
    assert restored.stdout == (project.root / "agent.py").read_bytes()
    assert f"release `{undone['id'][:12]}`" in forge.requests[1].body


def verified_by_the_workflow(project: Project, checkout: Path) -> Any:
    """Run the step of the CI job that verifies, as GitHub's runner runs it."""
    import yaml

    path = Path(str(project.json("ship", "--ci-workflow")["path"]))
    step = yaml.safe_load(path.read_text())["jobs"]["verify"]["steps"][-1]
    assert step["shell"] == "bash"
    programs = project.root.parent / "bin"
    programs.mkdir(exist_ok=True)
    program = programs / "ratchet"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ratchet "$@"\n')
    program.chmod(0o755)
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=checkout,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_improve_opens_the_request_and_rollback_closes_it(
    make_project: MakeProject, forge: FakeGitHub
) -> None:
    project = project_at(make_project, forge, "pull_request = true\nevidence = true")
    token = {"GITHUB_TOKEN": forge.token}
    done = project.ratchet("improve", "--json", env=token)
    assert done.returncode == 0, done.stderr
    (request,) = forge.requests
    path = f".ratchet-evidence/{_releases(project, token)[0]['experiment_id'][:12]}.json"
    assert f"ratchet verify {path}" in request.body
    project.git("fetch", "-q", "origin")
    evidence = project.git("show", f"origin/{request.branch}:{path}")
    (project.root / "copy.json").write_text(evidence)
    assert project.json("verify", "copy.json")["ok"] is True
    checkout = project.root.parent / "checkout"
    project.git("worktree", "add", "-q", "--detach", str(checkout), f"origin/{request.branch}")
    assert verified_by_the_workflow(project, checkout).returncode == 0
    (checkout / path).write_text(evidence.replace('"candidate": 0.', '"candidate": 0.1', 1))
    assert verified_by_the_workflow(project, checkout).returncode == 1

    done = project.ratchet("rollback", env=token)
    assert done.returncode == 0, done.stderr
    assert request.state == "closed"
    assert "reverts release" in request.comments[0]
    assert _releases(project, token)[0]["state"] == "rolled_back"


def test_a_request_that_cannot_be_opened_does_not_spoil_the_run(
    make_project: MakeProject, forge: FakeGitHub
) -> None:
    project = project_at(make_project, forge, "pull_request = true")
    done = project.ratchet("improve", env={"GITHUB_TOKEN": "old-token-0"})
    assert done.returncode == 0, done.stderr
    assert "refuses the token from GITHUB_TOKEN" in done.stdout
    assert "ratchet ship" in done.stdout
    done = ship(project, token="old-token-0")
    assert done.returncode == 5
    assert "renew it" in done.stderr
    assert project.ratchet("improve", env={"GITHUB_TOKEN": forge.token}).returncode == 0
    assert len(forge.requests) == 1
    assert ship(project).returncode == 0
    assert len(forge.requests) == 1


def test_a_workflow_is_written_once_and_never_over_another(
    make_project: MakeProject, forge: FakeGitHub
) -> None:
    import yaml

    project = project_at(make_project, forge)
    path = project.root / ".github" / "workflows" / "ratchet-evidence.yml"
    assert project.json("ship", "--ci-workflow")["written"] is True
    job = yaml.safe_load(path.read_text())["jobs"]["verify"]
    assert "ratchet verify" in job["steps"][-1]["run"]
    assert project.json("ship", "--ci-workflow")["written"] is False
    path.write_text("name: mine\n")
    done = ship(project, "--ci-workflow")
    assert done.returncode == 5
    assert "not written by this command" in done.stderr
    assert path.read_text() == "name: mine\n"


def _releases(project: Project, env: dict[str, str]) -> list[Any]:
    done = project.ratchet("releases", "--json", env=env)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: list[Any] = json.loads(done.stdout)["releases"]
    return found


def _merge(project: Project, forge: FakeGitHub) -> None:
    """Merge the request at the remote alone; the project's own main stays behind."""
    request = forge.requests[0]
    tip = forge.tip(request.branch)
    git = ["git", "-C", str(forge.git), "update-ref", "refs/heads/main", str(tip)]
    subprocess.run(git, check=True)
    request.state, request.merged = "closed", True
