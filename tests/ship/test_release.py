"""Shipping: what a release makes, what it leaves alone, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ratchet.ship import branch_name
from ratchet.types import Conflict, ShipError

from .conftest import DECISION


def test_a_release_is_one_branch_with_one_commit_that_changes_only_the_span(project: Any) -> None:
    before = project.state()
    release = project.ship()
    assert project.state() == before
    assert release.state == "branched"
    assert project.branches() == [release.branch]
    assert release.branch == f"ratchet/retrieval-{release.candidate_id[:8]}"
    assert project.git("rev-parse", release.branch) == release.commit
    assert project.git("rev-parse", f"{release.branch}^") == release.base == before[0]
    assert project.git("diff", "--name-only", release.base, release.commit) == "agent.py"
    shown = project.git("show", f"{release.branch}:agent.py")
    assert shown == project.source.decode().replace("Int(5,", "Int(7,").strip()
    message = project.git("show", "-s", "--format=%an|%B", release.commit)
    assert message.startswith("Ada|Improve retrieval: exact_match +0.0750")
    assert "e-value 31.25" in message
    assert "173 pairs" in message
    assert msgspec.json.decode(msgspec.json.encode(release), type=type(release)) == release


def test_the_same_call_again_finds_the_same_release(project: Any) -> None:
    first = project.ship()
    assert project.ship(now=1_800_000_000.0) == first
    project.git("switch", "--quiet", first.branch)
    assert project.ship() == first


@pytest.mark.parametrize("verdict", ["harm", "futile", "no_gain", "guardrail"])
def test_nothing_but_a_promotion_is_shipped(project: Any, verdict: str) -> None:
    decision = msgspec.structs.replace(DECISION, verdict=verdict)
    with pytest.raises(ShipError, match="not 'promote'"):
        project.ship(decision=decision)
    assert project.branches() == []


def test_without_its_evidence_nothing_is_shipped(project: Any, tmp_path: Path) -> None:
    with pytest.raises(ShipError, match=r"evidence file .*gone\.json does not exist"):
        project.ship(evidence_path=tmp_path / "gone.json")
    assert project.branches() == []


def test_a_branch_of_that_name_with_another_content_is_refused(project: Any) -> None:
    release = project.ship()
    project.git("switch", "--quiet", release.branch)
    project.write("agent.py", project.source.replace(b"Int(7", b"Int(8"))
    project.git("commit", "--quiet", "--all", "--message", "mine")
    project.git("switch", "--quiet", "main")
    with pytest.raises(ShipError, match=r"exists with different content .*git branch -m"):
        project.ship()
    project.git("branch", "--force", release.branch, release.commit)
    assert project.ship() == release
    # The same message, another change.
    project.git("switch", "--quiet", release.branch)
    project.write("agent.py", project.source.replace(b"Int(7", b"Int(8"))
    project.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    project.git("switch", "--quiet", "main")
    with pytest.raises(ShipError, match="exists with different content"):
        project.ship()


def test_two_processes_cannot_make_one_branch_twice(project: Any) -> None:
    branch = branch_name(project.baseline, project.candidate(retrieval={"k": 7}))
    # The other process is as fast as can be: it makes the branch while the tests run.
    with pytest.raises(Conflict, match=f"Another process created the branch {branch}"):
        project.ship(test_command=f"git -C {project.root} branch {branch}", test_sandbox=False)
    project.git("branch", "-D", branch)
    assert project.ship().branch == branch


def test_a_name_that_git_does_not_allow_still_makes_a_branch(make_project: Any) -> None:
    project = make_project('import ratchet\nR = ratchet.prompt("über.größe..lock", "a")\n')
    candidate = project.candidate(**{"über.größe..lock": "b"})
    assert project.ship(candidate).branch == f"ratchet/ber-gr-e-lock-{candidate.id[:8]}"
