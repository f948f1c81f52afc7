"""A plan is checked, shown, and committed as a whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.types import InputError, ShipError
from ratchet.wire import look
from ratchet.wire.changes import Changes, FileChange, Piece, StepChanges
from ratchet.wire.former import commit, dry_run, make_plan
from ratchet.wire.former.plan import WiringStep
from tests.wire.wired import (
    AGENT,
    FILES,
    STEPS,
    choices_of,
    git,
    plan_of,
    repository,
    snapshot,
    tree_hash,
)


def test_a_dry_run_shows_all_and_writes_nothing(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    before = tree_hash(root)
    shown = dry_run(root, plan_of(root, workflow=True))
    assert tree_hash(root) == before
    for path in ("agent.py", "ratchet.toml", "requirements.txt", ".gitignore", "tasks.jsonl"):
        assert f"+++ b/{path}\n" in shown
    assert "+agent-ratchet" in shown
    assert "+++ b/.github/workflows/ratchet-evidence.yml\n" in shown


def test_git_applies_the_diff_to_what_the_commit_holds(tmp_path: Path) -> None:
    files = {**FILES, "requirements.txt": "anthropic"}  # without a line end
    root = repository(tmp_path / "made", files)
    plan = plan_of(root)
    (tmp_path / "patch").write_text(dry_run(root, plan))
    commit(root, plan, switch=False)
    git(root, "apply", "--index", str(tmp_path / "patch"))
    assert git(root, "write-tree") == git(root, "rev-parse", "ratchet/init^{tree}")


def test_the_wiring_is_one_commit_and_other_work_stays(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    (root / "README.md").write_text("# Changed\n")
    (root / "staged.txt").write_text("new\n")
    git(root, "add", "staged.txt")
    before = git(root, "status", "--porcelain"), snapshot(root)
    made = commit(root, plan_of(root))
    assert not made.switched
    assert "uncommitted changes" in made.why_not
    assert (git(root, "status", "--porcelain"), snapshot(root)) == before
    assert git(root, "rev-list", "--count", "main..ratchet/init") == "1"
    changed = git(root, "diff", "--name-only", "main", "ratchet/init").split()
    assert "README.md" not in changed
    assert ".ratchet-init.json" in changed


def test_hooks_do_not_run(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    for name in (
        "pre-commit",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "reference-transaction",
    ):
        hook = root / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\necho {name} >> '{tmp_path}/ran'\nexit 1\n")
        hook.chmod(0o755)
    assert commit(root, plan_of(root)).switched
    assert not (tmp_path / "ran").exists()


ODD = {
    "src 🚚/agent ä.py": AGENT.replace("\n", "\r\n").replace("A helper", "# é A helper"),
    "requirements.txt": "anthropic>=0.40\r\n",
    "bad\udcff.txt": "not UTF-8 \udcff\n",
    "old.py": "print 'Python 2'\n",
    "vendor/agent.py": AGENT,
    **{f"agents/a{number}.py": AGENT for number in range(9)},
}


def test_odd_files_and_ten_agents_are_wired_and_their_line_ends_kept(tmp_path: Path) -> None:
    root = repository(tmp_path / "a b's 🚚", ODD)
    plan = plan_of(root)
    assert commit(root, plan).switched
    odd = (root / "src 🚚/agent ä.py").read_bytes()
    assert b"import ratchet\r\n" in odd
    assert b"\n" not in odd.replace(b"\r\n", b"")
    assert (root / "agents/a8.py").read_text().count("ratchet.prompt") == 3
    assert (root / "vendor/agent.py").read_text() == AGENT
    assert not git(root, "status", "--porcelain")


# --- what is refused


def _detached(root: Path) -> None:
    git(root, "checkout", "-q", "--detach")


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
    git(root, "branch", "ratchet/init")


def _branch_in_the_way(root: Path) -> None:
    git(root, "branch", "ratchet")


def _merging(root: Path) -> None:
    (root / ".git/MERGE_HEAD").write_text(git(root, "rev-parse", "HEAD") + "\n")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_detached, "is detached"),
        (_dirty, "agent.py has uncommitted changes"),
        (_staged, "agent.py has uncommitted changes"),
        (_hidden, "agent.py differs from the last commit"),
        (_untracked, "requirements.txt is not in the last commit"),
        (_branch, "The branch ratchet/init exists"),
        (_branch_in_the_way, "cannot create the branch"),
        (_merging, "in the middle of a merge"),
    ],
)
def test_a_repository_that_is_not_ready_is_refused_and_stays(
    spoil: Callable[[Path], None], sentence: str, tmp_path: Path
) -> None:
    root = repository(tmp_path / "made")
    spoil(root)
    refs, before = git(root, "for-each-ref"), snapshot(root)
    with pytest.raises(ShipError, match=sentence):
        commit(root, plan_of(root))
    assert (git(root, "for-each-ref"), snapshot(root)) == (refs, before)


def test_a_folder_without_git_and_a_submodule_are_refused(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "agent.py").write_text(AGENT)
    with pytest.raises(ShipError, match="not in a git repository"):
        commit(plain, plan_of(plain))
    inner, outer = repository(tmp_path / "inner"), repository(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "part")
    with pytest.raises(ShipError, match="submodule"):
        commit(outer / "part", plan_of(outer / "part"))


def _one_step(change: FileChange) -> tuple[WiringStep, ...]:
    return (lambda root, found, choices: StepChanges(Changes((change,)), {}),)


def _outside(root: Path) -> None:
    target = root.parent / "outside.py"
    target.write_text(AGENT)
    (root / "linked.py").symlink_to(target)


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
        (None, FileChange("../new.py", "", content=""), "not a file of the repository"),
        (None, FileChange(".git/config", "", content=""), "not a file of the repository"),
        (None, FileChange("agent.py", "", content="x = 1\n"), "nothing that exists"),
        (None, FileChange("agent.py/new.py", "", content="x = 1\n"), "is a file"),
        (None, FileChange("agent.py", "", (Piece(0, 0, "("),)), "would not parse"),
        (None, FileChange("new.py", "", content="def (\n"), "would not parse"),
        (None, FileChange("new.yaml", "", content="a: [\n"), "would not parse"),
        (None, FileChange("new.json", "", content="{"), "would not parse"),
        (None, FileChange("new.toml", "", content="a"), "would not parse"),
        (None, FileChange("agent.py", "", (Piece(9**9, 9**9, "#"),)), "changed while"),
        (None, FileChange("gone.py", "", (Piece(0, 0, "#"),)), "not there any more"),
    ],
)
def test_a_plan_that_cannot_be_written_safely_is_refused(
    spoil: Callable[[Path], None] | None, change: FileChange, sentence: str, tmp_path: Path
) -> None:
    root = repository(tmp_path / "made")
    if spoil:
        spoil(root)
    found = look(root)
    with pytest.raises(InputError, match=sentence):
        make_plan(root, found, choices_of(found), _one_step(change))


def test_steps_that_contradict_one_another_are_refused(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    found = look(root)
    steps: list[WiringStep] = [
        lambda root, found, choices: StepChanges(config={"agent": {"entry": "a:b"}}),
        lambda root, found, choices: StepChanges(config={"agent": {"entry": "c:d"}}),
    ]
    with pytest.raises(InputError, match=r"agent\.entry different values"):
        make_plan(root, found, choices_of(found), steps)


def test_a_file_that_changed_since_the_plan_is_not_overwritten(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    plan = plan_of(root)
    (root / "agent.py").write_text("# another\n" + AGENT)
    git(root, "commit", "-aqm", "another")
    with pytest.raises(InputError, match="changed since the plan"):
        commit(root, plan)


def test_a_second_plan_says_that_the_project_is_wired(tmp_path: Path) -> None:
    root = repository(tmp_path / "made")
    commit(root, plan_of(root))
    found = look(root)
    with pytest.raises(InputError, match="exists; nothing that exists is overwritten"):
        make_plan(root, found, choices_of(found), STEPS[1:])


# --- a kill at each step

_KILLED = """
import os, sys
from pathlib import Path
from ratchet.ship.repository import Repository
from ratchet.wire.former import commit
from tests.wire.wired import plan_of

root = Path(sys.argv[1])
plan = plan_of(root)
run, calls = Repository._run, []
WRITING = ("hash-object", "mktree", "commit-tree", "update-ref", "switch")

def counted(self, *arguments, **options):
    verb = next(one for one in arguments if one in WRITING or not one.startswith("-"))
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
        commit(root, plan)
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
    files = {"agent.py": AGENT, "requirements.txt": "anthropic\n"}
    root = repository(tmp_path / "made", files)
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(root)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": "."},
    )
    lines = [line.split(" ", 3) for line in done.stdout.splitlines()]
    made = {killed: tip != "none" for _, tip, _, killed in lines}
    assert [code for code, *_ in lines] == ["9"] * 10 + ["0"]
    assert [killed for killed, there in made.items() if there] == [
        "after update-ref",
        "before switch",
        "after switch",
        "never",
    ]
    trees = {git(root, "rev-parse", f"{tip}^{{tree}}") for _, tip, *_ in lines if tip != "none"}
    assert len(trees) == 1
    assert {state for _, _, state, _ in lines} == {"''"}
