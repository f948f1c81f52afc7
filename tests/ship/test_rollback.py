"""Undoing a release, before and after its merge, and seeing what people did by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet.ship import TestCommand, refresh, rollback
from ratchet.types import RELEASE_TRANSITIONS, Conflict, ShipError

NOW = 1_700_000_100.0


def merge(project: Any, release: Any, *how: str) -> None:
    project.git("merge", "--quiet", *how, release.branch)
    if "--squash" in how:
        project.commit("squashed")


def test_an_unmerged_release_loses_its_branch_and_can_be_restored(project: Any) -> None:
    before = project.state()
    release = project.ship()
    undone = rollback(release, project.root, NOW)
    assert (undone.state, undone.rollback) == ("rolled_back", "deleted")
    assert "rolled_back" in RELEASE_TRANSITIONS[release.state]
    assert project.branches() == []
    assert project.state() == before
    with pytest.raises(Conflict, match=f"git branch {release.branch} {release.commit}"):
        rollback(undone, project.root, NOW)
    project.git("gc", "--quiet", "--prune=now")
    project.git("branch", release.branch, undone.commit)
    assert refresh(release, project.root) == release


def test_a_rollback_killed_before_it_was_recorded_can_be_repeated(project: Any) -> None:
    release = project.ship()
    assert rollback(release, project.root, NOW) == rollback(release, project.root, NOW)
    again = project.ship()
    merge(project, again)
    first = rollback(again, project.root, NOW)
    assert rollback(again, project.root, NOW + 50) == first
    with pytest.raises(Conflict, match=f"Merge the branch {first.rollback}"):
        rollback(first, project.root, NOW)
    assert len([b for b in project.branches() if "rollback" in b]) == 1


def test_a_branch_that_somebody_committed_to_is_kept(project: Any) -> None:
    release = project.ship()
    project.git("switch", "--quiet", release.branch)
    with pytest.raises(ShipError, match=f"{release.branch} is checked out in .*switch -"):
        rollback(release, project.root, NOW)
    project.write("more.txt", "x")
    project.commit()
    project.git("switch", "--quiet", "main")
    with pytest.raises(ShipError, match=r"it has other commits.*git branch -D"):
        rollback(release, project.root, NOW)
    assert project.branches() == [release.branch]


@pytest.mark.parametrize("how", [["--ff-only"], ["--no-ff"], ["--squash"]])
def test_a_merged_release_is_undone_on_a_branch(project: Any, how: list[str]) -> None:
    original = project.source
    release = project.ship()
    merge(project, release, *how)
    project.git("branch", "--quiet", "-D", release.branch)
    merged = refresh(release, project.root)
    assert merged.state == "merged"
    before = project.state()
    undone = rollback(merged, project.root, NOW)
    assert project.state() == before
    assert undone.state == "rolled_back"
    assert undone.rollback == f"ratchet/rollback-{release.id[:8]}"
    assert project.branches() == [undone.rollback]
    assert project.git("rev-parse", f"{undone.rollback}^") == before[0]
    project.git("merge", "--quiet", undone.rollback)
    assert project.source == original


def test_other_lines_that_changed_since_stay(project: Any) -> None:
    old = project.source.decode()
    change = project.candidate(
        retrieval={"k": 7},
        system="Be brief.\n{policy}",
        rank="def rank(query, docs):\n    return docs[-1]",
    )
    release = project.ship(change)
    merge(project, release)
    now = project.source.decode()
    edited = "# new first line\n" + now.replace("threshold=0.3", "threshold=0.5").replace(
        "def answer(question)", "def answer(question, *more)"
    )
    project.write("agent.py", edited)
    project.commit()
    undone = rollback(release, project.root, NOW)
    restored = project.git("show", f"{undone.rollback}:agent.py")
    expected = "# new first line\n" + old.replace("threshold=0.3", "threshold=0.5").replace(
        "def answer(question)", "def answer(question, *more)"
    )
    assert restored == expected.strip()


def test_a_span_that_changed_since_is_refused(project: Any) -> None:
    release = project.ship()
    merge(project, release)
    project.write("agent.py", project.source.replace(b"Int(7", b"Int(9"))
    project.commit()
    with pytest.raises(ShipError, match=r"retrieval\.k changed since release .*by hand: 5"):
        rollback(release, project.root, NOW)
    project.git("mv", "agent.py", "moved.py")
    project.commit()
    with pytest.raises(ShipError, match=r"agent\.py is not in commit .*renamed"):
        rollback(release, project.root, NOW)
    assert [b for b in project.branches() if "rollback" in b] == []


def test_a_rollback_is_tested_too(project: Any) -> None:
    release = project.ship()
    merge(project, release)
    project.write("check.py", "import agent\nassert agent.KNOBS.k == 7\n")
    project.commit()
    with pytest.raises(ShipError, match=r"breaks the tests.*without it they pass"):
        rollback(release, project.root, NOW, tests=TestCommand("{python} check.py"))
    assert [b for b in project.branches() if "rollback" in b] == []
    undone = rollback(release, project.root, NOW, tests=TestCommand("{python} -c 'assert 0'"))
    message = project.git("show", "-s", "--format=%B", undone.rollback)
    assert "fail with and without this rollback" in message
    assert f"Restores the source from before {release.commit}" in message


def test_a_rollback_branch_with_another_content_is_refused(project: Any) -> None:
    release = project.ship()
    merge(project, release)
    project.git("branch", f"ratchet/rollback-{release.id[:8]}")
    with pytest.raises(ShipError, match=r"exists with different content.*git branch -m"):
        rollback(release, project.root, NOW)


def test_refresh_sees_what_people_did(project: Any) -> None:
    release = project.ship()
    assert refresh(release, project.root) is release
    project.git("switch", "--quiet", release.branch)
    assert refresh(release, project.root) is release
    project.git("switch", "--quiet", "--detach")
    assert refresh(release, project.root) is release
    project.git("switch", "--quiet", "main")
    project.git("branch", "-D", release.branch)
    deleted = refresh(release, project.root)
    assert (deleted.state, deleted.rollback) == ("rolled_back", "deleted")
    assert refresh(deleted, project.root) is deleted
    project.git("branch", release.branch, release.commit)
    merge(project, release, "--no-ff")
    merged = refresh(release, project.root)
    assert merged.state == "merged"
    project.write("agent.py", project.source.replace(b"Int(7", b"Int(5"))
    project.commit()
    by_hand = refresh(merged, project.root)
    assert (by_hand.state, by_hand.rollback) == ("rolled_back", "reverted by hand")


def test_another_repository_is_refused(project: Any, tmp_path: Any) -> None:
    import subprocess

    release = project.ship()
    other = tmp_path / "other"
    subprocess.run(["git", "init", "--quiet", str(other)], check=True)
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "x"], cwd=other, check=True)
    with pytest.raises(ShipError, match=r"is not in .*Run this in the repository"):
        rollback(release, other, NOW)
