"""`ratchet demo`: the whole loop on the example agent, as a newcomer runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ratchet.cli.demo import Variant
from ratchet.cli.demo import _prepare as prepare
from tests import interpreters


def demo(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return interpreters.run(
        [sys.executable, "-m", "ratchet", "demo", *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": "400"},
        timeout=400,
    )


def last_line(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


pytestmark = pytest.mark.xdist_group("demo")
"""One worker runs these: the demo that they look at is shown once."""

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))


def prepared(folder: Path, *, shuffled: bool) -> Path:
    """The demo's folder; with half of its tasks and less budget, but for `make faults`."""
    prepare(folder, Variant(shuffled=shuffled))
    if not LONG:
        config = folder / "ratchet.toml"
        assert "rollouts = 6000" in config.read_text()
        config.write_text(config.read_text().replace("rollouts = 6000", "rollouts = 1400"))
        tasks = folder / "tasks.jsonl"
        tasks.write_text("".join(tasks.read_text().splitlines(keepends=True)[::2]))
        git(folder, "-c", "user.name=t", "-c", "user.email=t@t.invalid", "commit", "-qam", "less")
    return folder


@pytest.fixture(scope="module")
def shown(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = prepared(tmp_path_factory.mktemp("demo") / "ratchet-demo", shuffled=False)
    return folder, demo(folder=folder.parent)


def test_the_agent_gets_better_on_tasks_it_never_learned_from(
    shown: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    found = last_line(shown[1])
    assert found["e_value"] >= 20
    assert found["candidate"] > found["baseline"] + 0.1
    assert found["pairs"] > 10
    assert found["branch"].startswith("ratchet/retrieval-")


def test_the_branch_changes_only_the_knobs_and_its_tests_pass(
    shown: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    root, done = shown
    branch = last_line(done)["branch"]
    assert git(root, "diff", "--name-only", "main", branch).split() == ["stdlib_helper/scoring.py"]
    changed = git(root, "diff", "--unified=0", "main", branch).splitlines()
    body = [line for line in changed if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert body
    assert all("=ratchet." in line for line in body), body
    tree = tmp_path / "tree"
    git(root, "worktree", "add", "--quiet", "--detach", str(tree), branch)
    tests = subprocess.run(
        # Before it made the branch, the demo has run them all there.
        [sys.executable, "-m", "unittest", "-q", *([] if LONG else ["tests.test_scoring"])],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert tests.returncode == 0, tests.stderr
    git(root, "worktree", "remove", "--force", str(tree))
    assert git(root, "status", "--porcelain") == ""


def test_a_plot_and_the_pull_requests_text_lie_beside_it(
    shown: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    root, done = shown
    picture = root / ".ratchet" / "score-seed-0.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = next((root / ".ratchet" / "releases").glob("*.md")).read_text()
    assert str(last_line(done)["pairs"]) in text
    assert "ratchet verify" in text


def test_a_second_run_finds_where_things_stand(
    shown: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    root, done = shown
    database = root / ".ratchet" / "ratchet.db"
    again = demo(folder=root.parent)
    assert last_line(again) == last_line(done)
    assert "continuing there" in again.stdout
    assert database.is_file()
    status = interpreters.run(
        [sys.executable, "-m", "ratchet", "status", "--json"],
        cwd=root,
        check=True,
    )
    assert json.loads(status.stdout)["summary"]["experiments"] == 1


@pytest.mark.long
def test_shuffled_answers_end_without_a_gain_and_without_a_branch(tmp_path: Path) -> None:
    prepared(tmp_path / "ratchet-demo-shuffled", shuffled=True)
    done = demo("--shuffle-answers", folder=tmp_path)
    found = last_line(done)
    assert found["branch"] is None
    assert "no significant gain" in done.stdout.lower()
    assert git(tmp_path / "ratchet-demo-shuffled", "branch", "--list", "ratchet/*") == ""


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    done = demo("mine", folder=tmp_path)
    assert done.returncode == 2
    assert "mine" in done.stderr
    assert os.listdir(tmp_path / "mine") == ["thesis.txt"]


def test_a_demo_of_the_other_kind_is_not_continued(tmp_path: Path) -> None:
    state = tmp_path / "there" / ".ratchet"
    state.mkdir(parents=True)
    (state / "demo.json").write_text('{"shuffled": false}')
    done = demo("there", "--shuffle-answers", folder=tmp_path)
    assert done.returncode == 2
    assert "another folder" in done.stderr


def test_an_example_that_is_not_there_is_named_beside_those_that_are(tmp_path: Path) -> None:
    done = demo("--example", "cricket", folder=tmp_path)
    assert done.returncode == 2
    assert "no example 'cricket'" in done.stderr
    assert "cricket_sql" in done.stderr
    assert os.listdir(tmp_path) == []
