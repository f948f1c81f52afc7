"""The repository's own tests, on the patched commit, in a work tree of their own."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet.sandbox import best_level
from ratchet.sandbox.levels import why_no_landlock
from ratchet.ship import check
from ratchet.types import ShipError


def test_the_tests_see_the_patch_and_the_user_does_not(project: Any) -> None:
    project.write(
        "check.py",
        "import agent, os\nassert agent.KNOBS.k == 7, agent.__file__\n"
        "assert os.path.dirname(agent.__file__) == os.getcwd()\nopen('left.txt', 'w').close()\n",
    )
    project.commit()
    before = project.state()
    release = project.ship(test_command="{python} check.py")
    assert project.state() == before
    assert project.git("worktree", "list").count("\n") == 0
    text = Path(release.pull_request).read_text()
    contained = (
        ", in a sandbox without network." if best_level() != "none" else ", without a sandbox"
    )
    assert f"tests passed on this commit: `{{python}} check.py`{contained}" in text


def test_a_package_installed_from_the_work_tree_is_tested_patched(make_project: Any) -> None:
    project = make_project(
        "import ratchet\nR = ratchet.params('retrieval', k=ratchet.Int(5, 1, 20))\n",
        "project/src/mine/knobs.py",
    )
    project.write("project/src/mine/__init__.py", "")
    project.write(
        "project/run.py",
        # What an editable installation does: the user's own source folder is on the path.
        f"import sys\nsys.path.append({str(project.root / 'project' / 'src')!r})\n"
        "from mine.knobs import R\nassert R.k == 7\n",
    )
    project.commit()
    release = project.ship(repo=project.root / "project", test_command="{python} run.py")
    assert project.branches() == [release.branch]


def test_failing_tests_stop_the_release(project: Any) -> None:
    project.write(
        "check.py", "import agent\nprint('k is', agent.KNOBS.k)\nassert agent.KNOBS.k == 5"
    )
    project.commit()
    before = project.state()
    with pytest.raises(ShipError) as caught:
        project.ship(test_command="{python} check.py")
    said = str(caught.value)
    assert "the tests fail (exit code 1) on this change; without it they pass. No branch" in said
    assert "k is 7" in said
    assert "AssertionError" in said
    assert project.state() == before
    assert project.branches() == []


@pytest.mark.skipif(why_no_landlock() != "", reason="no Landlock on this machine")
def test_tests_that_lack_a_socket_are_told_where_there_is_one(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_level", lambda sandbox: "landlock")
    project.write("check.py", "import socket\nsocket.socket(socket.AF_UNIX).bind('there')\n")
    project.commit()
    with pytest.raises(ShipError, match=r"`bubblewrap`(.|\n)*`network = true` under \[ship\]"):
        project.ship(test_command="{python} check.py")
    project.write("check.py", "raise SystemExit(3)\n")
    project.commit()
    with pytest.raises(ShipError) as caught:
        project.ship(test_command="{python} check.py")
    assert "bubblewrap" not in str(caught.value)


@pytest.mark.parametrize("sandbox", [True, False])
def test_hanging_tests_are_killed_with_all_their_children(
    project: Any, tmp_path: Path, sandbox: bool
) -> None:
    mark = f"child-of-{tmp_path.name}-{os.getpid()}"
    project.write(
        "check.py",
        "import os, subprocess, sys, time\n"
        "code = 'import time; time.sleep(600)'\n"
        f"subprocess.Popen([sys.executable, '-c', code, {mark!r}], start_new_session=True)\n"
        "print('waiting', flush=True)\ntime.sleep(600)\n",
    )
    project.commit()
    with pytest.raises(ShipError, match=r"did not finish within 1 s on this change; without it"):
        project.ship(test_command="{python} check.py", test_timeout_s=1.0, test_sandbox=sandbox)
    assert not any(mark in line for line in command_lines())


def command_lines() -> Iterator[str]:
    """Of all processes of this machine."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                yield (folder / "cmdline").read_bytes().decode(errors="replace")


@pytest.mark.skipif(best_level() == "none", reason="no sandbox can be made on this machine")
def test_the_tests_reach_neither_the_network_nor_the_users_files(
    project: Any, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        project.write(
            "check.py",
            "import socket\n"
            "def refused(attempt):\n"
            "    try:\n        attempt()\n    except OSError:\n        return True\n"
            f"assert refused(lambda: open({str(secret)!r}))\n"
            # It may be written to in memory that is the sandbox's own.
            f"refused(lambda: open({str(tmp_path / 'new')!r}, 'w'))\n"
            f"assert refused(lambda: open({str(project.root / 'agent.py')!r}, 'a'))\n"
            f"assert refused(lambda: socket.create_connection({server.getsockname()!r}))\n"
            "open('left.txt', 'w').close()\n",
        )
        project.commit()
        project.ship(test_command="{python} check.py")
    assert not (tmp_path / "new").exists()


def test_tests_without_a_sandbox_are_called_so(project: Any, tmp_path: Path) -> None:
    mark = tmp_path / "outside"
    project.write("check.py", f"open({str(mark)!r}, 'w').close()\n")
    project.commit()
    release = project.ship(test_command="{python} check.py", test_sandbox=False)
    assert mark.exists()
    assert "check.py`, without a sandbox." in Path(release.pull_request).read_text()


def test_tests_may_be_given_the_network(project: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        project.write(
            "check.py",
            f"import socket\nsocket.create_connection({server.getsockname()!r}).close()\n",
        )
        project.commit()
        release = project.ship(test_command="{python} check.py", test_network=True)
    text = Path(release.pull_request).read_text()
    assert ("in a sandbox." if best_level() != "none" else "without a sandbox.") in text


def test_of_a_flood_of_output_head_and_tail_are_kept(project: Any) -> None:
    from ratchet.ship.check import TestCommand, run_tests
    from ratchet.ship.repository import Repository

    head = project.git("rev-parse", "HEAD")
    report = run_tests(
        Repository.open(project.root),
        head,
        head,
        TestCommand("{python} -c \"print('first'); print('x' * 3_000_000); print('last')\"", 60),
    )
    assert report.outcome == "passed"
    assert report.output.startswith("first")
    assert report.output.endswith("last\n")
    assert "bytes omitted" in report.output
    assert len(report.output) < 40_000


def test_keys_do_not_reach_the_tests(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("NEEDED", "yes")
    project.write(
        "check.py",
        "import os\nassert 'OPENAI_API_KEY' not in os.environ\n"
        "assert os.environ['NEEDED'] == 'yes'\n"
        "assert os.environ['PATH'] and os.environ['HOME']\n",
    )
    project.commit()
    monkeypatch.setenv("HOME", os.environ.get("HOME", "/"))
    project.ship(test_command="{python} check.py", test_environment=("NEEDED",))


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("no-such-program --x", r"'no-such-program --x' cannot be started"),
        ("echo 'open", "cannot be split into words"),
    ],
)
def test_a_test_command_that_cannot_run_is_said(project: Any, command: str, sentence: str) -> None:
    with pytest.raises(ShipError, match=sentence):
        project.ship(test_command=command)


def test_a_shell_is_not_involved(project: Any, tmp_path: Path) -> None:
    project.ship(test_command=f"echo ; touch {tmp_path / 'made'}")
    assert not (tmp_path / "made").exists()
