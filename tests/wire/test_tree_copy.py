"""The copy that a check runs in: what it holds, and that it is put back whatever a run did."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ratchet.wire.checking import scratch
from ratchet.wire.checking.tree_copy import OwnFiles, TreeCopy
from tests.wire.wired import git, repository, snapshot

FILES = {
    "agent.py": "RULES = 1\n",
    "deep/er/one.txt": "one\n",
    "deep/two.txt": "two\n",
    "run.sh": "#!/bin/sh\n",
    ".gitignore": "kept-out/\n",
    ".env": "KEY=never-read\n",
    ".aws/credentials": "never-read\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "root", FILES)


def test_it_holds_own_files_and_neither_secrets_nor_what_lies_outside(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "other.txt").write_text("never-read\n")
    (root / "kept-out").mkdir()
    (root / "kept-out" / "model.bin").write_text("large\n")
    (root / "new.txt").write_text("not committed\n")
    (root / "link.txt").symlink_to("deep/two.txt")
    (root / "out.txt").symlink_to(tmp_path / "outside" / "other.txt")
    (root / "away").symlink_to(tmp_path / "outside")
    (root / "run.sh").chmod(0o755)
    git(root, "add", "-A", "-f", "away", "out.txt", "link.txt", "run.sh")
    git(root, "commit", "-qm", "links")
    copy = TreeCopy(OwnFiles(root, ["deep/er/"]), tmp_path / "copy")
    assert snapshot(copy.folder) == {
        ".gitignore": b"kept-out/\n",
        "agent.py": b"RULES = 1\n",
        "deep/two.txt": b"two\n",
        "link.txt": b"two\n",
        "new.txt": b"not committed\n",
        "run.sh": b"#!/bin/sh\n",
    }
    assert (copy.folder / "run.sh").stat().st_mode & 0o100
    assert not (copy.folder / "link.txt").is_symlink()


def test_it_is_put_back_whatever_a_run_did_and_the_repository_stays(
    root: Path, tmp_path: Path
) -> None:
    copy = TreeCopy(OwnFiles(root, []), tmp_path / "copy")
    at, before, own = copy.folder, snapshot(copy.folder), snapshot(root)
    copy.show({"agent.py": b"RULES = 2\n", "run.sh": None, "new/file.txt": b"new"})
    changed = {**before, "agent.py": b"RULES = 2\n", "new/file.txt": b"new"}
    del changed["run.sh"]
    assert snapshot(at) == changed
    (at / "deep" / "two.txt").write_text("owt\n")  # of the same length
    shutil.rmtree(at / "deep" / "er")
    (at / "deep" / "er").write_text("a file where a folder was")
    (at / ".gitignore").unlink()
    (at / ".gitignore").mkdir()
    (at / "made" / "deep").mkdir(parents=True)
    (at / "made" / "deep" / "x").write_text("x")
    (at / "made" / "link").symlink_to(root)
    copy.show({})
    assert snapshot(at) == before
    assert snapshot(root) == own


def test_a_folder_without_git_is_copied_by_what_a_look_lists(tmp_path: Path) -> None:
    root = tmp_path / "plain"
    (root / "node_modules").mkdir(parents=True)
    (root / "node_modules" / "x.js").write_text("x")
    (root / "agent.py").write_text("RULES = 1\n")
    (root / ".env").write_text("KEY=never-read\n")
    assert snapshot(TreeCopy(OwnFiles(root, []), tmp_path / "copy").folder) == {
        "agent.py": b"RULES = 1\n"
    }


def test_a_small_copy_is_made_in_memory_and_removed_and_a_large_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "MEMORY", tmp_path)
    monkeypatch.delenv("TMPDIR", raising=False)
    left = tmp_path / "ratchet-check-999999999-killed"
    left.mkdir()
    with scratch.scratch_folder(1000) as small:
        assert small.parent == tmp_path
        assert not left.exists()
        with scratch.scratch_folder(scratch.LARGEST + 1) as large:
            assert large.parent != tmp_path
        assert small.exists(), "that of a check that still runs"
    assert not small.exists()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert not scratch._fits(1000)
