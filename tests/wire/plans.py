"""A small repository, a plan for it, and what a repository is: refs, index, files with modes."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from ratchet.wire.applying import Plan, make_plan
from ratchet.wire.changes import Changes, FileChange, Piece
from tests.repositories import git

AGENT = '''"""Answers questions."""

PROMPT = "You are a librarian."


def answer(question: str) -> str:
    return PROMPT + question
'''
FILES = {"agent.py": AGENT, "requirements.txt": "anthropic", "README.md": "# Shelves\n"}
CONFIG = '[agent]\nentry = "agent:answer"\n'


def repository(root: Path, files: Mapping[str, str | bytes] = FILES) -> Path:
    """A repository of one commit."""
    root.mkdir(parents=True)
    for path, content in files.items():
        whole = root / os.fsencode(path).decode(errors="surrogateescape")
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_bytes(content if isinstance(content, bytes) else content.encode())
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "t")
    git(root, "config", "user.email", "t@t.invalid")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "agent")
    return root


def plan_of(root: Path, *more: FileChange) -> Plan:
    """A plan that declares the prompt, adds a package, and creates `ratchet.toml`."""
    data = (root / "agent.py").read_bytes()
    end = "\r\n" if b"\r\n" in data else "\n"
    start = data.index(b'"You are')
    stop = data.index(b'"', start + 1) + 1
    manifest = (root / "requirements.txt").read_bytes()
    changes = [
        FileChange(
            "agent.py",
            "The prompt is declared.",
            (
                Piece(data.index(b"PROMPT ="), data.index(b"PROMPT ="), f"import ratchet{end * 2}"),
                Piece(start, start, 'str(ratchet.prompt("librarian", '),
                Piece(stop, stop, "))"),
            ),
        ),
        FileChange(
            "requirements.txt",
            "Ratchet's package.",
            (Piece(len(manifest), len(manifest), f"{end}agent-ratchet>=0.1"),),
        ),
        FileChange("ratchet.toml", "The project's settings.", content=CONFIG),
        *more,
    ]
    return make_plan(root, [Changes(tuple(changes))])


def state_of(root: Path) -> dict[str, object]:
    """All that a person could see of a repository: refs, HEAD, index, and each file."""
    files: dict[str, object] = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            file = Path(folder, name)
            mode = stat.S_IMODE(file.lstat().st_mode)
            content = os.readlink(file) if file.is_symlink() else file.read_bytes()
            if name != ".git":
                files[str(file.relative_to(root))] = (mode, content)
    if (root / ".git").exists():
        files["(refs)"] = git(root, "for-each-ref")
        files["(HEAD)"] = git(root, "rev-parse", "--abbrev-ref", "HEAD", "HEAD")
        files["(index)"] = git(root, "ls-files", "--stage")
        files["(config)"] = git(root, "config", "--local", "--list")
    return files
