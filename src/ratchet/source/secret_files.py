"""Identifies files with secrets by their names; untrusted code must not read them."""

from __future__ import annotations

import fnmatch
import os
import re
from pathlib import Path

from ratchet.source.files import PACKAGES, is_environment

SECRET_NAMES = frozenset(
    {
        *(".aws", ".azure", ".docker", ".git", ".gnupg", ".kube", ".ratchet", ".ssh"),
        *(".env", ".envrc", ".git-credentials", ".netrc", "_netrc", ".npmrc", ".pgpass", ".pypirc"),
        *("id_dsa", "id_ecdsa", "id_ed25519", "id_rsa", "secrets.toml"),
    }
)
"""Names of files and folders, at any depth. `.git` contains credentials of remotes and every
committed version of the task file; `.streamlit/secrets.toml` belongs to Streamlit."""

SECRET_PATTERNS = (
    *(".env.*", ".env-*", ".env_*", "*.env"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.keystore", "*.jks", "*.kdbx", "*.ppk"),
    *("*credentials*.json", "client_secret*.json", "*service[-_]account*.json"),
    *("token.json", "token.pickle", "secrets.json", "secrets.y*ml", "*.tfvars"),
)
"""Patterns for names of files."""

HOME_NAMES = SECRET_NAMES | {".bash_history", ".config", ".python_history", ".zsh_history"}
"""Names of files and folders with secrets in a home folder."""

_SECRET = re.compile("|".join(map(fnmatch.translate, SECRET_PATTERNS)), re.IGNORECASE)
_EXAMPLE = re.compile(
    r"(?:^|[._-])(?:example|sample|template|dist|schema)(?:[._-]|$)", re.IGNORECASE
)


def is_hidden_in_home(path: str) -> bool:
    """Whether a path such as `~/.config/NAME/file` is hidden from rollouts, and may be allowed."""
    home, _, inner = path.partition("/")
    return home == "~" and inner.partition("/")[0] in HOME_NAMES - SECRET_NAMES


def is_secret(name: str) -> bool:
    """Whether a name is that of a file or folder with secrets, such as `.env.test`."""
    if name in SECRET_NAMES:
        return True
    return _SECRET.match(name) is not None and _EXAMPLE.search(name) is None


def in_secret_place(path: Path) -> bool:
    """Whether a relative path is secret by its name, or lies in a secret folder."""
    return any(is_secret(part) for part in path.parts)


def secret_files(root: Path) -> list[Path]:
    """Find the outermost files and folders with secrets below a folder.

    Installed packages are not searched; a virtual environment is not secret, whatever its name.
    """
    secret: list[Path] = []
    for folder, folders, files in os.walk(root):
        searched = []
        for name in folders:
            if name in PACKAGES or is_environment(os.path.join(folder, name)):
                continue
            if is_secret(name):
                secret.append(Path(folder, name))
            else:
                searched.append(name)
        folders[:] = searched
        secret += [Path(folder, name) for name in files if is_secret(name)]
    return sorted(secret)


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
