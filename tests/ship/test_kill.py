"""Killed at any moment and called again, a release ends in the same single branch."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from ratchet.ship import TestCommand, rollback
from ratchet.ship.repository import Repository

TEST = "true"
WRITES = {"hash-object", "mktree", "commit-tree", "worktree", "update-ref"}


def killed_at(step: int, action: Any) -> bool:
    """Run an action in a child that is killed before its n-th write, by git or to a file."""
    replace = os.replace
    child = os.fork()
    if child == 0:
        left = step

        def counted(function: Any) -> Any:
            def call(*arguments: Any, **options: Any) -> Any:
                nonlocal left
                if function is replace or WRITES & set(arguments[1:]):
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                    left -= 1
                return function(*arguments, **options)

            return call

        code = 1
        try:
            Repository._run = counted(Repository._run)  # type: ignore[method-assign]
            os.replace = counted(os.replace)
            action()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.waitstatus_to_exitcode(status) == 0
    return False


def test_a_release_killed_at_any_step_ends_in_one_branch(project: Any, scratch: Path) -> None:
    before = project.state()
    step = 0
    while killed_at(step, lambda: project.ship(test_command=TEST)):
        release = project.ship(test_command=TEST)
        assert project.state() == before
        assert project.branches() == [release.branch]
        assert project.git("rev-parse", release.branch) == release.commit
        assert release.commit in Path(release.pull_request).read_text()
        assert project.git("worktree", "list").count("\n") == 0
        assert list(scratch.iterdir()) == []
        project.git("branch", "--quiet", "-D", release.branch)
        shutil.rmtree(Path(release.pull_request).parent)
        step += 1
    assert step >= 9


@pytest.mark.long
def test_a_rollback_killed_at_any_step_ends_in_one_branch(project: Any, scratch: Path) -> None:
    release = project.ship()
    project.git("merge", "--quiet", release.branch)
    project.git("branch", "--quiet", "-d", release.branch)
    step = 0

    def undo() -> Any:
        return rollback(release, project.root, 1_700_000_100.0, tests=TestCommand(TEST))

    while killed_at(step, undo):
        undone = undo()
        assert project.branches() == [undone.rollback]
        assert list(scratch.iterdir()) == []
        project.git("branch", "--quiet", "-D", undone.rollback)
        step += 1
    assert step >= 8


def test_killed_by_its_own_tests_the_next_call_cleans_up(project: Any, scratch: Path) -> None:
    mark = project.root.parent / "killed"
    project.write(
        "check.py",
        "import os, pathlib, signal\n"
        f"mark = pathlib.Path({str(mark)!r})\n"
        "if not mark.exists():\n"
        "    mark.touch()\n"
        "    os.kill(int(os.environ['SHIPPER']), signal.SIGKILL)\n",
    )
    project.commit()
    command = "{python} check.py"

    def ship() -> None:
        os.environ["SHIPPER"] = str(os.getpid())
        project.ship(test_command=command, test_environment=("SHIPPER",), test_sandbox=False)

    assert killed_at(10_000, ship)
    assert mark.exists()
    assert len(list(scratch.glob("ratchet-ship-*"))) == 1
    assert project.branches() == []
    release = project.ship(test_command=command, test_sandbox=False)
    assert project.branches() == [release.branch]
    assert project.git("worktree", "list").count("\n") == 0
