"""Undo gives back what was there before, and takes nothing that a person edited."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.types import InputError, ShipError
from ratchet.wire.applying import commit, undo, wired, write
from tests.repositories import git
from tests.wire.plans import AGENT, CONFIG, FILES, plan_of, repository, state_of

MESSAGE = "Wire shelves for Ratchet"
BRANCH = "ratchet/init"


def _wired(root: Path) -> Path:
    commit(plan_of(root), BRANCH, MESSAGE)
    return root


def _merged(root: Path) -> Path:
    _wired(root)
    git(root, "switch", "-q", "main")
    git(root, "merge", "-q", "--ff-only", BRANCH)
    git(root, "branch", "-q", "-d", BRANCH)
    return root


ODD: dict[str, str | bytes] = {
    **FILES,
    "agent.py": AGENT.replace("\n", "\r\n").replace("Answers", "é Answers"),
    "requirements.txt": "anthropic\r\n# é",
    "bad\udcff.txt": b"not UTF-8 \xff\n",
    "data.bin": bytes(range(256)),
    "empty": b"",
}


def _odd(root: Path) -> Path:
    repository(root, ODD)
    (root / "agent.py").chmod(0o755)
    (root / "link").symlink_to("README.md")
    (root / "out").symlink_to("/etc/hostname")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "odd")
    (root / "untracked é.txt").write_text("mine")
    return root


def _converted(root: Path) -> Path:
    repository(root, {**FILES, ".gitattributes": "*.py text eol=crlf\n"})
    (root / "agent.py").unlink()
    git(root, "checkout", "-q", "agent.py")
    assert b"\r\n" in (root / "agent.py").read_bytes()
    return root


def _worktree(root: Path) -> Path:
    repository(root.with_name("main"))
    git(root.with_name("main"), "worktree", "add", "-q", "-b", "side", str(root))
    return root


def _shallow(root: Path) -> Path:
    source = repository(root.with_name("source"))
    (source / "README.md").write_text("# More\n")
    git(source, "commit", "-qam", "more")
    git(source, "clone", "-q", "--depth", "1", source.as_uri(), str(root))
    return root


def _detached(root: Path) -> Path:
    repository(root)
    git(root, "checkout", "-q", "--detach")
    return root


def _with_submodule(root: Path) -> Path:
    inner = repository(root.with_name("inner"))
    repository(root)
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "part")
    git(root, "commit", "-qm", "part")
    return root


def _ignoring(root: Path) -> Path:
    return repository(root, {**FILES, ".gitignore": "ratchet.toml\n"})


KINDS = [
    repository,
    _odd,
    _converted,
    _worktree,
    _shallow,
    _detached,
    _with_submodule,
    _ignoring,
]


@pytest.mark.parametrize("make", KINDS)
def test_undo_gives_the_very_same_repository_again(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    root = make(tmp_path / "made 🚚")
    before = state_of(root)
    commit(plan_of(root), BRANCH, MESSAGE)
    assert b"ratchet.prompt" in (root / "agent.py").read_bytes()
    assert undo(root, dry_run=True).deleted_branch == BRANCH
    undone = undo(root)
    assert not undone.kept
    assert not undone.commit
    assert state_of(root) == before
    with pytest.raises(InputError, match="is not wired"):
        undo(root)


@pytest.mark.parametrize("make", KINDS)
def test_undo_of_a_merged_wiring_is_a_revert_on_the_branch_that_is_checked_out(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    root = make(tmp_path / "made")
    branch, tree = git(root, "branch", "--show-current"), git(root, "rev-parse", "HEAD^{tree}")
    files = {name: value for name, value in state_of(root).items() if "(" not in name}
    commit(plan_of(root), BRANCH, MESSAGE)
    tip = git(root, "rev-parse", "HEAD").strip()
    git(root, "switch", "-q", *([branch.strip()] if branch.strip() else ["--detach", "HEAD^"]))
    git(root, "merge", "-q", "--ff-only", tip)
    git(root, "branch", "-q", "-D", BRANCH)
    undone = undo(root)
    assert (undone.kept, undone.branch, undone.deleted_branch) == ((), branch.strip(), "")
    assert undone.commit == git(root, "rev-parse", "HEAD").strip()
    assert f"This reverts commit {tip}" in git(root, "log", "-1", "--format=%B")
    assert git(root, "rev-parse", "HEAD^{tree}") == tree
    assert git(root, "branch", "--show-current") == branch
    assert {name: value for name, value in state_of(root).items() if "(" not in name} == files
    assert wired(root) is None


@pytest.mark.parametrize("make", [repository, _odd, _detached])
def test_files_written_in_place_get_their_originals_back(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    root = make(tmp_path / "made")
    before = state_of(root)
    write(plan_of(root))
    assert "?? ratchet.toml" in git(root, "status", "--porcelain")
    assert undo(root, dry_run=True).removed == ("ratchet.toml",)
    undone = undo(root)
    assert not undone.kept
    assert state_of(root) == before


def test_a_wiring_that_was_squashed_into_other_work_takes_only_itself_back(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    _wired(root)
    (root / "README.md").write_text("# Mine\n")
    git(root, "commit", "-qam", "mine")
    messages = git(root, "log", "--format=* %B", "main..HEAD")
    git(root, "switch", "-q", "main")
    git(root, "merge", "-q", "--squash", BRANCH)
    git(root, "commit", "-qm", f"Two things (#12)\n\n{messages}")
    undone = undo(root)
    assert not undone.kept
    assert (root / "agent.py").read_text() == AGENT
    assert not (root / "ratchet.toml").exists()
    assert (root / "README.md").read_text() == "# Mine\n"


def test_a_branch_that_was_never_checked_out_is_deleted(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    before = state_of(root)
    commit(plan_of(root), BRANCH, MESSAGE, switch=False)
    assert wired(root) is None
    assert undo(root).deleted_branch == BRANCH
    assert state_of(root) == before


def test_other_peoples_uncommitted_work_survives_undo(tmp_path: Path) -> None:
    root = _wired(repository(tmp_path / "made"))
    (root / "README.md").write_text("# Changed\n")
    (root / "new.txt").write_text("new\n")
    git(root, "add", "new.txt")
    undo(root)
    assert git(root, "status", "--porcelain") == " M README.md\nA  new.txt\n"
    assert git(root, "branch", "--show-current").strip() == "main"


# --- edits


def _spaced(text: str) -> str:
    return text.replace(" = ", "  =  ")


@pytest.mark.parametrize(
    ("place", "committed"),
    [("branch", False), ("merged", False), ("merged", True), ("in place", False)],
)
@pytest.mark.parametrize("edit", ["white space", "line end", "content", "mode"])
def test_a_created_file_that_was_edited_stays(
    edit: str, place: str, committed: bool, tmp_path: Path
) -> None:
    root = repository(tmp_path / "made")
    if place == "in place":
        write(plan_of(root))
    else:
        (_wired if place == "branch" else _merged)(root)
    file = root / "ratchet.toml"
    if edit == "mode":
        file.chmod(0o755)
    else:
        new = {"white space": _spaced(CONFIG), "line end": CONFIG + "\n", "content": "# mine\n"}
        file.write_text(new[edit])
    if committed:
        git(root, "add", "-A")
        git(root, "commit", "-qm", "mine")
    kept = file.read_bytes(), file.stat().st_mode
    assert [one.path for one in undo(root, dry_run=True).kept] == ["ratchet.toml"]
    undone = undo(root)
    assert [one.path for one in undone.kept] == ["ratchet.toml"]
    assert "since" in undone.kept[0].why
    assert (file.read_bytes(), file.stat().st_mode) == kept
    assert (root / "agent.py").read_text() == AGENT
    assert (root / "requirements.txt").read_text() == FILES["requirements.txt"]


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("in_place", [True, False])
def test_edits_elsewhere_in_a_changed_file_stay_and_the_wiring_leaves(
    in_place: bool, committed: bool, tmp_path: Path
) -> None:
    root = repository(tmp_path / "made")
    write(plan_of(root)) if in_place else _wired(root)
    file = root / "agent.py"
    file.write_text(file.read_text() + "\n\ndef more() -> None: ...\n")
    if committed:
        git(root, "commit", "-qam", "mine")
    assert not undo(root).kept
    assert file.read_text() == AGENT + "\n\ndef more() -> None: ...\n"
    dirty = git(root, "status", "--porcelain", "agent.py")
    assert bool(dirty) == (in_place or not committed)


@pytest.mark.parametrize("in_place", [True, False])
def test_an_edit_of_what_the_wiring_changed_keeps_the_whole_file(
    in_place: bool, tmp_path: Path
) -> None:
    root = repository(tmp_path / "made")
    write(plan_of(root)) if in_place else _merged(root)
    file = root / "agent.py"
    file.write_text(file.read_text().replace("a librarian", "the best librarian"))
    edited = file.read_bytes()
    undone = undo(root)
    assert [one.path for one in undone.kept] == ["agent.py"]
    assert file.read_bytes() == edited
    assert not (root / "ratchet.toml").exists()
    if in_place:  # its original stays stored until the file is put right
        file.write_text(AGENT)
        assert not undo(root).kept
        assert not (root / ".ratchet").exists()


def test_more_commits_on_the_branch_are_not_lost(tmp_path: Path) -> None:
    root = _wired(repository(tmp_path / "made"))
    (root / "README.md").write_text("# Mine\n")
    git(root, "commit", "-qam", "mine")
    undone = undo(root)
    assert (undone.branch, undone.deleted_branch) == (BRANCH, "")
    assert (root / "README.md").read_text() == "# Mine\n"
    assert (root / "agent.py").read_text() == AGENT


def test_committed_edits_of_the_wiring_stay_on_its_branch(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    before = state_of(root)
    _wired(root)
    (root / "ratchet.toml").write_text("# Mine\n")
    (root / "scoring.py").write_text("")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "an evaluator")
    undone = undo(root)
    assert (undone.branch, undone.edits_on, undone.deleted_branch) == ("main", BRANCH, "")
    assert not undone.kept
    assert git(root, "show", f"{BRANCH}:ratchet.toml") == "# Mine\n"
    after = state_of(root)
    assert {path for path in before if after[path] != before[path]} == {"(refs)", "(config)"}
    assert after.keys() == before.keys()


def test_a_revert_by_hand_is_seen_and_its_revert_too(tmp_path: Path) -> None:
    root = _merged(repository(tmp_path / "made"))
    git(root, "revert", "--no-edit", "HEAD")
    assert wired(root) is None
    git(root, "revert", "--no-edit", "HEAD")
    assert wired(root) is not None
    undo(root)
    assert (root / "agent.py").read_text() == AGENT


def test_a_second_wiring_after_undo_is_taken_back_too(tmp_path: Path) -> None:
    root = _merged(repository(tmp_path / "made"))
    undo(root)
    _merged(root)
    undo(root)
    assert (root / "agent.py").read_text() == AGENT
    assert wired(root) is None


def test_of_two_wired_folders_one_has_to_be_named(tmp_path: Path) -> None:
    files = {f"{folder}/{path}": text for folder in "ab" for path, text in FILES.items()}
    root = repository(tmp_path / "made", files)
    for folder in "ab":
        commit(plan_of(root / folder), f"ratchet/{folder}", MESSAGE)
    with pytest.raises(InputError, match="2 folders are wired: a, b"):
        undo(root)
    undo(root / "a")
    assert (root / "a/agent.py").read_text() == AGENT
    assert (root / "b/ratchet.toml").exists()
    record = wired(root)
    assert record is not None
    assert record.folder == "b"


# --- what a repository says is not trusted


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        (".", "../notes.txt"),
        (".", "a/../../notes.txt"),
        ("..", "notes.txt"),
        ("/", "ABSOLUTE"),
        (".", "ABSOLUTE"),
        (".", "linked/notes.txt"),
        ("linked", "notes.txt"),
        (".", ".git/config"),
    ],
)
def test_a_record_that_leads_out_of_the_repository_changes_nothing(
    folder: str, path: str, tmp_path: Path
) -> None:
    root = repository(tmp_path / "made")
    (tmp_path / "notes.txt").write_text("mine\n")
    (root / "linked").symlink_to(tmp_path)
    git(root, "add", "-A")
    path = path.replace(
        "ABSOLUTE", str(tmp_path / "notes.txt").lstrip("/" if folder == "/" else "")
    )
    (tmp_path / "blob").write_text("mine\n")
    after = git(root, "hash-object", "-w", str(tmp_path / "blob")).strip()
    lines = f"Ratchet-Wired: {json.dumps(folder)}\nRatchet-Wrote: - {after} {json.dumps(path)}"
    git(root, "commit", "-qm", f"Wire it\n\n{lines}")
    before = state_of(root)
    try:
        undone = undo(root)
    except InputError:
        pass
    else:
        assert not undone.removed
    assert (tmp_path / "notes.txt").read_text() == "mine\n"
    assert state_of(root) == before


def test_a_stored_record_that_leads_out_changes_nothing(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    (tmp_path / "notes.txt").write_text("mine\n")
    write(plan_of(root))
    index = root / ".ratchet/init/files.json"
    stored = json.loads(index.read_text())
    for file in stored["files"]:
        file["path"] = "../notes.txt"
        file["after"] = "bWluZQo="
        file["before"] = None
        file["folders"] = [".."]
    stored["traces"] = [{"how": "created", "path": "../notes.txt"}]
    index.write_text(json.dumps(stored))
    undone = undo(root)
    assert len(undone.kept) == 3
    assert not undone.traces
    assert (tmp_path / "notes.txt").read_text() == "mine\n"
    index.parent.mkdir(parents=True, exist_ok=True)
    index.write_text("{")
    with pytest.raises(InputError, match=r"files\.json cannot be read"):
        undo(root)


def test_originals_that_git_lacks_are_said(tmp_path: Path) -> None:
    source = _merged(repository(tmp_path / "source"))
    for number in range(2):
        (source / "README.md").write_text(f"# {number}\n")
        git(source, "commit", "-qam", "more")
    bundle = tmp_path / "made"
    git(source, "clone", "-q", "--depth", "3", source.as_uri(), str(bundle))
    before = state_of(bundle)
    with pytest.raises(ShipError, match="no longer has") as raised:
        undo(bundle)
    assert "git fetch --unshallow" in str(raised.value.hint)
    assert state_of(bundle) == before
    git(bundle, "fetch", "-q", "--unshallow")
    assert not undo(bundle).kept


def test_a_kill_half_way_through_writing_in_place_is_taken_back(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    before = state_of(root)
    write(plan_of(root))
    (root / "ratchet.toml").unlink()
    shutil.copy(root / "README.md", tmp_path / "spare")
    (root / "agent.py").write_text(AGENT)
    assert not undo(root).kept
    assert state_of(root) == before


def test_undo_runs_no_program_of_the_repository(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    for name in ("post-checkout", "post-commit", "reference-transaction"):
        hook = root / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
        hook.chmod(0o755)
    _merged_by_plumbing(root)
    (tmp_path / "ran").unlink(missing_ok=True)
    undo(root)
    assert not (tmp_path / "ran").exists()


def _merged_by_plumbing(root: Path) -> None:
    made = commit(plan_of(root), BRANCH, MESSAGE, switch=False)
    environment = {**os.environ, "GIT_CONFIG_COUNT": "0"}
    subprocess.run(
        ["git", "-c", "core.hooksPath=/dev/null", "merge", "-q", "--ff-only", made.commit],
        cwd=root,
        env=environment,
        check=True,
    )
