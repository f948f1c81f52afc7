"""Identifies files with secrets by name; untrusted code must not read them."""

from __future__ import annotations

import os
from pathlib import Path

SECRET_NAMES = frozenset(
    {
        ".aws",
        ".azure",
        ".docker",
        ".env",
        ".envrc",
        ".git",
        ".git-credentials",
        ".gnupg",
        ".kube",
        ".netrc",
        ".npmrc",
        ".pgpass",
        ".pypirc",
        ".ratchet",
        ".ssh",
        "id_ecdsa",
        "id_ed25519",
        "id_rsa",
    }
)
"""Names of files and folders, at any depth. `.git` contains credentials of remotes and every
committed version of the task file."""

HOME_NAMES = SECRET_NAMES | {".bash_history", ".config", ".python_history", ".zsh_history"}
"""The same for a home folder."""

_EXAMPLES = (".example", ".sample", ".template", ".dist")
_NOT_SEARCHED = frozenset({"__pycache__", "node_modules", "site-packages"})


def is_secret(name: str) -> bool:
    """Whether a file or folder of that name has secrets: `.env.test` but not `.env.example`."""
    if name.startswith((".env.", ".env-")):
        return not name.endswith(_EXAMPLES)
    return name in SECRET_NAMES


def in_secret_place(path: Path) -> bool:
    """Whether a relative path is secret by its name, or lies in a secret folder."""
    return any(is_secret(part) for part in path.parts)


def secret_files(root: Path) -> list[Path]:
    """Find the outermost files and folders with secrets below a folder.

    Installed packages are not searched; a virtual environment is not secret, whatever its name.
    """
    found: list[Path] = []
    for folder, folders, files in os.walk(root):
        searched = []
        for name in folders:
            if name in _NOT_SEARCHED or os.path.isfile(os.path.join(folder, name, "pyvenv.cfg")):
                continue
            if is_secret(name):
                found.append(Path(folder, name))
            else:
                searched.append(name)
        folders[:] = searched
        found += [Path(folder, name) for name in files if is_secret(name)]
    return sorted(found)


def checkouts(root: Path) -> list[Path]:
    """Find the folders of all work trees of a repository, including that of `root`.

    Reads git's own files: `.git/worktrees/NAME/gitdir` names the `.git` file of a linked work tree,
    and `.git` of a linked one names that folder (gitrepository-layout).

    Args:
        root: A folder with a `.git` folder or file; without one the result is empty.
    """
    git = root / ".git"
    try:
        if git.is_file():
            target = git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
            own = (root / target).resolve()
            git = (own / (own / "commondir").read_text(encoding="utf-8").strip()).resolve()
        linked = [
            (file.parent / file.read_text(encoding="utf-8").strip()).resolve().parent
            for file in git.glob("worktrees/*/gitdir")
        ]
    except (OSError, UnicodeDecodeError):
        return []
    main = [git.parent] if git.name == ".git" and git.is_dir() else []
    return [*main, *linked]
