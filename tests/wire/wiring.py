"""Wires a repository, wires it again, takes it back; says which of these left what they must."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from ratchet.wire import RepositoryLook
from ratchet.wire.applying import again, commit, dry_run, make_plan, undo, write
from ratchet.wire.changes import Changes, FileChange, Piece, Step
from ratchet.wire.choices import Choices, PromptChoice
from tests.wire.wired import enter, git, start, tree_hash

RIGHTS = ("dry_run", "again", "undone")


def wired_and_undone(root: Path, found: RepositoryLook) -> dict[str, str]:
    """What went wrong of `RIGHTS`, in a sentence; empty where all is right.

    Args:
        root: A repository, which is as it was afterwards. With git, each step is a commit.
        found: Its look.
    """
    wrong = dict.fromkeys(RIGHTS, "was not reached")
    before = tree_hash(root)
    plan = make_plan(root, found, chosen(found, "."), STEPS)
    shown = dry_run(root, plan)
    wrong["dry_run"] = "" if tree_hash(root) == before and shown else "wrote something"
    versioned = (root / ".git").exists()
    first = git(root, "rev-parse", "HEAD^{tree}") if versioned else contents_of(root)
    if versioned:
        commit(root, plan)
    else:
        write(root, plan)
    second = again(root, chosen, STEPS)
    wrong["again"] = ", ".join(one.path for one in second.plan.changes.files)
    report = undo(root, write=not versioned)
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


def chosen(found: RepositoryLook, project: str) -> Choices:
    """All prompts of the code are bound there."""
    names: set[str] = set()
    prompts = []
    for one in found.prompts:
        name = plain = re.sub(r"\W+", "_", one.name).strip("_").lower() or "prompt"
        while name in names:
            name = f"{plain}_{len(names)}"
        names.add(name)
        prompts.append(PromptChoice(one, name, "code", "for the score"))
    return Choices(project, "agent", found.entries[0], "python", tuple(prompts))


def bind(root: Path, found: RepositoryLook, choices: Choices) -> Step:
    """Declare each literal where it stands."""
    pieces: dict[str, set[Piece]] = {}
    for one in choices.prompts:
        for part in one.prompt.parts:
            path = part.place.path
            if not path.endswith(".py"):
                continue
            data = (root / path).read_bytes()
            literal = data[part.start : part.end]
            if not re.match(rb"[rRuU]?[\"']", literal) or b"ratchet.prompt" in literal:
                continue
            opening = f'str(ratchet.prompt("{one.name}", '
            made = pieces.setdefault(path, set())
            if all(piece.start != part.start for piece in made):
                made.add(Piece(part.start, part.start, opening))
                made.add(Piece(part.end, part.end, "))"))
    files = []
    for path, made in pieces.items():
        data = (root / path).read_bytes()
        line = re.search(rb"^(?:import|from) (?!__future__)\w+[^\n(]*\r?\n", data, re.MULTILINE)
        at = line.start() if line else 0
        end = "\r\n" if b"\r\n" in data else "\n"
        made.add(Piece(at, at, f"import ratchet{end}"))
        ordered = tuple(sorted(made, key=lambda one: (one.start, one.end)))
        files.append(FileChange(path, "Prompts are declared.", ordered))
    return Step(Changes(tuple(files)))


STEPS = (bind, enter, start)
