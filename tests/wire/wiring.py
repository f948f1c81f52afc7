"""Wires a repository, wires it again, takes it back; says which of these left what they must."""

from __future__ import annotations

import shutil
from pathlib import Path

from ratchet.wire import RepositoryLook
from ratchet.wire.former import again, commit, dry_run, make_plan, undo, write
from ratchet.wire.recommending import recommend
from tests.wire.wired import git, tree_hash

RIGHTS = ("questions", "dry_run", "again", "undone")


def wired_and_undone(root: Path, found: RepositoryLook) -> dict[str, str]:
    """What went wrong of `RIGHTS`, in a sentence; empty where all is right.

    Args:
        root: A repository, which is as it was afterwards. With git, each step is a commit.
        found: Its look.
    """
    wrong = dict.fromkeys(RIGHTS, "was not reached")
    before = tree_hash(root)
    advice = recommend(found)
    assert advice.choices is not None
    wrong["questions"] = "" if len(advice.questions) <= 3 else f"{len(advice.questions)} are asked"
    plan = make_plan(root, found, advice.choices)
    shown = dry_run(root, plan)
    wrong["dry_run"] = "" if tree_hash(root) == before and shown else "wrote something"
    versioned = (root / ".git").exists()
    first = git(root, "rev-parse", "HEAD^{tree}") if versioned else contents_of(root)
    if versioned:
        commit(root, plan)
    else:
        write(root, plan)
    second = again(root)
    wrong["again"] = ", ".join(one.path for one in second.plan.changes.files)
    report = undo(root / plan.choices.project, write=not versioned)
    last = git(root, "rev-parse", "HEAD^{tree}") if versioned else contents_of(root)
    kept = ", ".join(f"{one.place} {one.why}" for one in report.kept)
    wrong["undone"] = "" if first == last else f"another tree; kept: {kept}"
    return wrong


def contents_of(root: Path) -> dict[str, bytes]:
    """Bytes of all files, by path."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def with_git(source: Path, folder: Path) -> Path:
    """A copy of a checkout as a repository of one commit."""
    root = Path(
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns(".git"))
    )
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A", "-f")
    git(root, "commit", "-q", "-m", "first")
    return root
