"""Git repositories of tests: a folder with what was written into it, committed."""

from __future__ import annotations

import subprocess
from pathlib import Path

IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
"""Options of git, so that no configuration of a person is needed."""


def git(root: Path, *arguments: str) -> str:
    """What git says in a folder."""
    done = subprocess.run(
        ["git", *IDENTITY, *arguments], cwd=root, capture_output=True, text=True, check=True
    )
    return done.stdout


def committed(root: Path) -> Path:
    """The folder, now a repository with one commit of everything in it."""
    (root / ".gitignore").write_text("__pycache__/\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "agent")
    return root
