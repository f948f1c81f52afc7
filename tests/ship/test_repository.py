"""The user's repository: which states are refused, and what is said."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ratchet.ship import check_clean
from ratchet.ship.repository import Repository
from ratchet.types import ShipError


def test_a_dirty_tree_is_refused_and_named(project: Any) -> None:
    project.write("agent.py", project.source + b"# more\n")
    project.write("alone.txt", "x")
    project.git("add", "alone.txt")
    for number in range(12):
        project.write(f"new/über {number}.txt", "x")
        project.git("add", "--intent-to-add", f"new/über {number}.txt")
    project.write("untracked.txt", "x")
    with pytest.raises(ShipError) as caught:
        check_clean(project.root)
    said = str(caught.value)
    assert "14 paths differ" in said
    assert "M agent.py" in said
    assert "A alone.txt" in said
    assert "A new/über 0.txt" in said
    assert "and 4 more" in said
    assert "Commit or stash them" in said
    with pytest.raises(ShipError, match="14 paths"):
        project.ship()


def test_untracked_files_and_settings_count_only_where_a_release_would_patch_them(
    project: Any,
) -> None:
    project.write("state/ratchet.db", "x")
    project.write("prompts.yaml", "x")
    check_clean(project.root)
    with pytest.raises(ShipError, match=r"1 path differs.*\?\? prompts\.yaml"):
        check_clean(project.root, [project.root / "prompts.yaml", project.root / "agent.py"])
    # A key that the owner put into a tracked `.env` is the machine's, and in no release.
    project.write(".env", "KEY=\n")
    project.git("add", ".env")
    project.git("commit", "-qm", "Settings")
    project.write(".env", "KEY=secret\n")
    release = project.ship(out_dir=project.root / ".ratchet" / "releases")
    assert Path(release.pull_request).parent == project.root / ".ratchet" / "releases"
    assert project.git("diff", "--name-only", "HEAD", release.commit) == "agent.py"


def test_a_renamed_file_counts_once(project: Any) -> None:
    project.git("mv", "agent.py", "moved.py")
    with pytest.raises(ShipError, match=r"1 path differs from the last commit: R moved\.py\."):
        check_clean(project.root)


def test_no_git_is_said(project: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    with pytest.raises(ShipError, match="git is not installed, or is not on PATH"):
        check_clean(project.root)


def test_folders_that_are_no_usable_repository_are_refused(
    project: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    plain, bare, unborn = tmp_path / "plain", tmp_path / "bare", tmp_path / "unborn"
    plain.mkdir()
    subprocess.run(["git", "init", "--quiet", "--bare", str(bare)], check=True)
    subprocess.run(["git", "init", "--quiet", str(unborn)], check=True)
    lost = tmp_path / "lost"
    lost.mkdir()
    (lost / ".git").write_text(f"gitdir: {tmp_path}/gone/.git/worktrees/lost\n")
    for folder, sentence in [
        (lost, "git cannot read .*gone"),  # here git init would be no help
        (plain, "is not in a git repository.*git init"),
        (bare, "bare repository"),
        (project.root / ".git", "no work tree"),
        (unborn, "no commit on its current branch yet"),
        (tmp_path / "nowhere", "is not a folder"),
    ]:
        with pytest.raises(ShipError, match=sentence):
            check_clean(folder)


def test_a_submodule_is_refused(project: Any, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    subprocess.run(["git", "init", "--quiet", str(outer)], check=True)
    subprocess.run(
        [
            *("git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add"),
            *(str(project.root), "inner"),
        ],
        cwd=outer,
        check=True,
        capture_output=True,
    )
    with pytest.raises(ShipError, match="is a submodule"):
        check_clean(outer / "inner")


def test_a_merge_or_rebase_under_way_is_refused(project: Any) -> None:
    project.git("switch", "--quiet", "--create", "other")
    project.write("agent.py", project.source.replace(b"Int(5", b"Int(6"))
    project.commit()
    project.git("switch", "--quiet", "main")
    project.write("agent.py", project.source.replace(b"Int(5", b"Int(8"))
    project.commit()
    for command, what in [
        ("merge", "a merge"),
        ("rebase", "a rebase"),
        ("cherry-pick", "a cherry-pick"),
    ]:
        with pytest.raises(subprocess.CalledProcessError):
            project.git(command, "other")
        with pytest.raises(ShipError, match=f"in the middle of {what}.*Finish or abort"):
            check_clean(project.root)
        project.git(command, "--abort")
    check_clean(project.root)


def test_without_an_identity_ratchet_signs(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    release = project.ship()
    said = project.git("show", "-s", "--format=%an <%ae>, %cn <%ce>", release.commit)
    assert said == "Ratchet <ratchet@localhost>, Ratchet <ratchet@localhost>"


def test_the_users_hooks_do_not_run(project: Any, tmp_path: Path) -> None:
    mark = tmp_path / "hooked"
    for hook in ("pre-commit", "post-checkout", "commit-msg", "reference-transaction"):
        path = project.root / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {hook} >> {mark}\n")
        path.chmod(0o755)
    project.ship(test_command="{python} -c pass")
    assert not mark.exists()


def test_variables_of_a_running_hook_do_not_redirect(
    project: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert Repository.open(project.root).root == project.root.resolve()


def test_a_file_that_git_does_not_watch_is_refused(project: Any) -> None:
    project.git("update-index", "--assume-unchanged", "agent.py")
    project.write("agent.py", b"# more\n" + project.source)
    with pytest.raises(ShipError, match=r"agent\.py differs from the last commit, although"):
        project.ship()
    project.git("update-index", "--no-assume-unchanged", "agent.py")
    project.git("rm", "--quiet", "--cached", "agent.py")
    project.write(".gitignore", "agent.py\n")
    project.commit()
    with pytest.raises(ShipError, match=r"agent\.py is not in the last commit"):
        project.ship()


def test_a_branch_named_ratchet_in_the_way_is_said(project: Any) -> None:
    project.git("branch", "ratchet")
    with pytest.raises(ShipError, match=r"branch named `ratchet` is in the way.*rename it"):
        project.ship()
