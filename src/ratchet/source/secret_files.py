"""Which files of a folder hold secrets, by their names: what untrusted code must not read."""

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
"""Names of files and folders, wherever they lie. `.git` holds credentials of remotes and every
committed version of the task file."""

HOME_NAMES = SECRET_NAMES | {".bash_history", ".config", ".python_history", ".zsh_history"}
"""The same in a home folder."""

_EXAMPLES = (".example", ".sample", ".template", ".dist")
_NOT_SEARCHED = frozenset({"__pycache__", "node_modules", "site-packages"})


def is_secret(name: str) -> bool:
    """Whether a file or folder of that name holds secrets: `.env.test` does, `.env.example` not."""
    if name.startswith((".env.", ".env-")):
        return not name.endswith(_EXAMPLES)
    return name in SECRET_NAMES


def in_secret_place(path: Path) -> bool:
    """Whether a relative path is a secret by its name, or lies in a folder that is."""
    return any(is_secret(part) for part in path.parts)


def secret_files(root: Path) -> list[Path]:
    """Files and folders below a folder that hold secrets, none inside another.

    Installed packages are not searched; a virtual environment is none, whatever its name.
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
    """The folders in which a repository is checked out, that of `root` included.

    Read from git's own files: `.git/worktrees/NAME/gitdir` names the `.git` file of a linked work
    tree, and `.git` of a linked one names that folder (gitrepository-layout).

    Args:
        root: A folder that holds a `.git` folder or file; without one there are none.
    """
    git = root / ".git"
    try:
        if git.is_file():
            said = git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
            own = (root / said).resolve()
            git = (own / (own / "commondir").read_text(encoding="utf-8").strip()).resolve()
        linked = [
            (file.parent / file.read_text(encoding="utf-8").strip()).resolve().parent
            for file in git.glob("worktrees/*/gitdir")
        ]
    except (OSError, UnicodeDecodeError):
        return []
    main = [git.parent] if git.name == ".git" and git.is_dir() else []
    return [*main, *linked]
