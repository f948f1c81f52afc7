"""A plan is checked, shown, and written as a whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.types import InputError, ShipError
from ratchet.wire.applying import Plan, PlannedFile, commit, make_plan, show, undo, wired, write
from ratchet.wire.changes import Changes, FileChange, Piece
from tests.repositories import git
from tests.wire.plans import AGENT, FILES, plan_of, repository, state_of

MESSAGE = "Wire shelves for Ratchet"
BRANCH = "ratchet/init"


def test_a_plan_is_shown_and_nothing_is_written(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    before = state_of(root)
    shown = show(plan_of(root))
    assert state_of(root) == before
    assert "+++ b/agent.py\n" in shown
    assert "--- /dev/null\n+++ b/ratchet.toml\n" in shown
    assert "\\ No newline at end of file" in shown


def test_git_applies_the_diff_to_what_the_commit_holds(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    plan = plan_of(root)
    (tmp_path / "patch").write_text(show(plan))
    commit(plan, BRANCH, MESSAGE, switch=False)
    git(root, "apply", "--index", str(tmp_path / "patch"))
    assert git(root, "write-tree") == git(root, "rev-parse", f"{BRANCH}^{{tree}}")


def test_the_wiring_is_one_commit_and_other_work_comes_along(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    (root / "README.md").write_text("# Changed\n")
    (root / "staged.txt").write_text("new\n")
    git(root, "add", "staged.txt")
    made = commit(plan_of(root), BRANCH, MESSAGE)
    assert made.switched
    assert git(root, "branch", "--show-current").strip() == BRANCH
    assert git(root, "status", "--porcelain") == " M README.md\nA  staged.txt\n"
    assert git(root, "rev-list", "--count", f"main..{BRANCH}").strip() == "1"
    changed = git(root, "diff", "--name-only", "main", BRANCH).split()
    assert changed == ["agent.py", "ratchet.toml", "requirements.txt"]
    record = wired(root)
    assert record is not None
    assert [file.path for file in record.files] == changed


def test_hooks_do_not_run_and_nothing_is_signed(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    git(root, "config", "commit.gpgsign", "true")
    git(root, "config", "gpg.program", "false")
    for name in ("pre-commit", "commit-msg", "post-checkout", "reference-transaction"):
        hook = root / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\necho {name} >> '{tmp_path}/ran'\nexit 1\n")
        hook.chmod(0o755)
    assert commit(plan_of(root), BRANCH, MESSAGE).switched
    undo(root)
    assert not (tmp_path / "ran").exists()


def test_data_that_git_ignores_is_written_and_not_committed_from_a_subfolder(
    tmp_path: Path,
) -> None:
    files = {**{f"team/{path}": text for path, text in FILES.items()}, ".gitignore": "private/\n"}
    root = repository(tmp_path / "made", files)
    before = state_of(root)
    ignored = FileChange("private/tasks.jsonl", "Tasks.", content='{"input": "secret"}\n')
    plan = plan_of(root / "team", ignored)
    made = commit(plan, BRANCH, MESSAGE)
    assert made.ignored == ("private/tasks.jsonl",)
    assert "private" not in git(root, "ls-tree", "-r", "--name-only", BRANCH)
    assert (root / "team/private/tasks.jsonl").exists()
    undone = undo(root / "team")
    assert not undone.kept
    assert state_of(root) == before
    assert not (root / "team/private").exists()


def test_only_ignored_files_make_no_commit(tmp_path: Path) -> None:
    root = repository(tmp_path / "made", {**FILES, ".gitignore": "*.jsonl\n"})
    plan = make_plan(root, [Changes((FileChange("tasks.jsonl", "Tasks.", content="{}\n"),))])
    with pytest.raises(InputError, match="git ignores every file"):
        commit(plan, BRANCH, MESSAGE)


# --- what is refused


def _dirty(root: Path) -> None:
    (root / "agent.py").write_text(AGENT + "# more\n")


def _staged(root: Path) -> None:
    _dirty(root)
    git(root, "add", "agent.py")
    (root / "agent.py").write_text(AGENT)


def _hidden(root: Path) -> None:
    git(root, "update-index", "--assume-unchanged", "agent.py")
    _dirty(root)


def _untracked(root: Path) -> None:
    git(root, "rm", "-q", "--cached", "requirements.txt")
    git(root, "commit", "-q", "-m", "no manifest")


def _branch(root: Path) -> None:
    git(root, "branch", BRANCH)


def _branch_in_the_way(root: Path) -> None:
    git(root, "branch", "ratchet")


def _merging(root: Path) -> None:
    (root / ".git/MERGE_HEAD").write_text(git(root, "rev-parse", "HEAD"))


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_dirty, "agent.py has uncommitted changes"),
        (_staged, "agent.py has uncommitted changes"),
        (_hidden, "agent.py differs from the last commit"),
        (_untracked, "requirements.txt is not in the last commit"),
        (_branch, "The branch ratchet/init already exists"),
        (_branch_in_the_way, "cannot create the branch"),
        (_merging, "in the middle of a merge"),
    ],
)
def test_a_repository_that_is_not_ready_is_refused_and_stays(
    spoil: Callable[[Path], None], sentence: str, tmp_path: Path
) -> None:
    root = repository(tmp_path / "made")
    spoil(root)
    before = state_of(root)
    with pytest.raises(ShipError, match=sentence):
        commit(plan_of(root), BRANCH, MESSAGE)
    assert state_of(root) == before


def test_a_folder_without_git_and_a_submodule_get_no_commit_and_are_written_in_place(
    tmp_path: Path,
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for path, text in FILES.items():
        (plain / path).write_text(text)
    inner, outer = repository(tmp_path / "inner"), repository(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "part")
    for root, sentence in ((plain, "not in a git repository"), (outer / "part", "submodule")):
        before = state_of(root)
        with pytest.raises(ShipError, match=sentence):
            commit(plan_of(root), BRANCH, MESSAGE)
        write(plan_of(root))
        with pytest.raises(InputError, match=r"already written to"):
            write(Plan(root, (PlannedFile("more.txt", None, b"x", "More."),)))
        record = wired(root)
        assert record is not None
        assert set(record.stored) == {"agent.py", "ratchet.toml", "requirements.txt"}
        undo(root)
        assert state_of(root) == before
        assert wired(root) is None


def _outside(root: Path) -> None:
    (root.parent / "outside.py").write_text(AGENT)
    (root / "linked.py").symlink_to(root.parent / "outside.py")


def _linked_folder(root: Path) -> None:
    (root.parent / "outside").mkdir()
    (root / "folder").symlink_to(root.parent / "outside")


def _read_only(root: Path) -> None:
    (root / "agent.py").chmod(0o444)


@pytest.mark.parametrize(
    ("spoil", "change", "sentence"),
    [
        (_outside, FileChange("linked.py", "", (Piece(0, 0, "#"),)), "symbolic link"),
        (_linked_folder, FileChange("folder/new.py", "", content="x"), "symbolic link"),
        (_read_only, FileChange("agent.py", "", (Piece(0, 0, "# a\n"),)), "read-only"),
        (None, FileChange("../new.py", "", content=""), "not a file in"),
        (None, FileChange("a/../../new.py", "", content=""), "not a file in"),
        (None, FileChange("/tmp/new.py", "", content=""), "not a file in"),
        (None, FileChange("", "", content=""), "not a file in"),
        (None, FileChange("new\0.py", "", content=""), "not a file in"),
        (None, FileChange(".git/config", "", content=""), "not a file in"),
        (None, FileChange("agent.py", "", content="x = 1\n"), "already exists"),
        (None, FileChange("agent.py/new.py", "", content="x = 1\n"), "is a file"),
        (None, FileChange("agent.py", "", (Piece(0, 0, "("),)), "would not parse"),
        (None, FileChange("new.py", "", content="def (\n"), "would not parse"),
        (None, FileChange("new.yaml", "", content="a: [\n"), "would not parse"),
        (None, FileChange("new.json", "", content="{"), "would not parse"),
        (None, FileChange("new.toml", "", content="a"), "would not parse"),
        (None, FileChange("agent.py", "", (Piece(9**9, 9**9, "#"),)), "changed while"),
        (None, FileChange("gone.py", "", (Piece(0, 0, "#"),)), "no longer exists"),
    ],
)
def test_a_plan_that_cannot_be_written_safely_is_refused(
    spoil: Callable[[Path], None] | None, change: FileChange, sentence: str, tmp_path: Path
) -> None:
    root = repository(tmp_path / "made")
    if spoil:
        spoil(root)
    with pytest.raises(InputError, match=sentence):
        make_plan(root, [Changes((change,))])


def test_a_plan_that_was_made_elsewhere_does_not_lead_out_either(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    (tmp_path / "notes.txt").write_text("mine\n")
    for path in ("../notes.txt", str(tmp_path / "notes.txt")):
        plan = Plan(root, (PlannedFile(path, b"mine\n", b"yours\n", "Theirs."),))
        for apply in (write, lambda plan: commit(plan, BRANCH, MESSAGE)):
            with pytest.raises(InputError, match="not a file in"):
                apply(plan)
    assert (tmp_path / "notes.txt").read_text() == "mine\n"


def test_a_file_that_changed_since_the_plan_is_not_overwritten(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    plan = plan_of(root)
    (root / "agent.py").write_text("# another\n" + AGENT)
    git(root, "commit", "-aqm", "another")
    with pytest.raises(InputError, match="changed since the plan"):
        commit(plan, BRANCH, MESSAGE)
    with pytest.raises(InputError, match="changed since the plan"):
        write(plan)


# --- a kill at each step

_KILLED = """
import os, sys
from pathlib import Path
from ratchet.ship.repository import Repository
from ratchet.wire.applying import commit
from tests.wire.plans import plan_of

root = Path(sys.argv[1])
plan = plan_of(root)
run, calls = Repository._run, []
WRITING = ("hash-object", "mktree", "commit-tree", "update-ref", "config", "switch")

def counted(self, *arguments, **options):
    verb = next(word for word in arguments if word in WRITING or not word.startswith("-"))
    calls.append(verb)
    if calls.count(verb) == 1 and killed == f"before {verb}":
        os._exit(9)
    done = run(self, *arguments, **options)
    if killed == f"after {verb}":
        os._exit(9)
    return done

Repository._run = counted
kills = [f"{when} {verb}" for verb in WRITING for when in ("before", "after")]
for killed in [*kills, "never"]:
    child = os.fork()
    if not child:
        commit(plan, "ratchet/init", "Wire it")
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    tip = run(Repository(root, ""), "rev-parse", "--verify", "-q", "ratchet/init", ok=(0, 1))
    state = run(Repository(root, ""), "status", "--porcelain").stdout.decode()
    print(code, tip.stdout.decode().strip() or "none", repr(state), killed)
    if tip.stdout:
        run(Repository(root, ""), "switch", "-q", "main")
        run(Repository(root, ""), "branch", "-q", "-D", "ratchet/init")
"""


def test_a_kill_around_any_writing_of_git_leaves_nothing_or_the_commit(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(root)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": "."},
    )
    lines = [line.split(" ", 3) for line in done.stdout.splitlines()]
    made = {killed: tip != "none" for _, tip, _, killed in lines}
    assert [code for code, *_ in lines] == ["9"] * 12 + ["0"]
    assert [killed for killed, there in made.items() if there] == [
        "after update-ref",
        "before config",
        "after config",
        "before switch",
        "after switch",
        "never",
    ]
    trees = {git(root, "rev-parse", f"{tip}^{{tree}}") for _, tip, *_ in lines if tip != "none"}
    assert len(trees) == 1
    assert {state for _, _, state, _ in lines} == {"''"}
