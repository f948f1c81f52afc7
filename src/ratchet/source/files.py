"""The files that belong to a folder: those that git knows, else those that a walk finds."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

GIT_TIMEOUT_S = 20.0

PACKAGES = frozenset(
    {
        *("__pycache__", "node_modules", "bower_components", "site-packages", "dist-packages"),
        *("venv", ".venv", "virtualenv", ".tox", ".nox"),
    }
)
"""Folders of installed packages. A virtual environment counts as such whatever its name."""

BUILT = frozenset(
    {
        *("build", "dist", "out", "target", "coverage", "htmlcov", "storybook-static"),
        *(".next", ".nuxt", ".output", ".svelte-kit", ".turbo", ".cache"),
    }
)
"""Folders of build output, unless they are Python packages."""

VENDORED = frozenset({"vendor", "vendored", "_vendor", "third_party", "third-party", "thirdparty"})

SKIPPED = PACKAGES | BUILT | VENDORED
"""Names of folders, besides hidden ones, that hold none of the repository's own source."""

_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")


def is_environment(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder is a virtual environment."""
    return any(os.path.exists(os.path.join(folder, name)) for name in _ENVIRONMENT)


def why_skipped(folder: str, name: str) -> str:
    """Why a folder holds no files of the repository itself; empty if it may hold some.

    Args:
        folder: Where it is.
        name: Its name.
    """
    path = os.path.join(folder, name)
    if name in PACKAGES or is_environment(path):
        return "installed packages"
    if name in VENDORED:
        return "vendored copy"
    if name in BUILT and not os.path.exists(os.path.join(path, "__init__.py")):
        return "build output"
    return "hidden" if name.startswith(".") else ""


def walk(root: Path) -> Iterator[Path]:
    """Files below a folder, in order; links to folders are not followed."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not why_skipped(folder, name))
        yield from (Path(folder, name) for name in sorted(names))


def own_files(root: Path, folders: Sequence[str] = (".",)) -> list[Path]:
    """The files that git tracks or would track, sorted; found by a walk if git knows none.

    Args:
        root: A folder.
        folders: Folders in it, relative; others are left out.
    """
    root = root.resolve()
    paths: set[Path] = set()
    for folder in folders:
        place = (root / folder).resolve()
        if place.is_relative_to(root) and place.is_dir():
            listed = known_to_git(place)
            paths.update(listed or walk(place))  # git lists nothing in a folder that it ignores
    return sorted(path for path in paths if path.is_file())


def known_to_git(folder: Path) -> list[Path] | None:
    """What git tracks or would track below a folder; None if git does not answer."""
    command = ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--cached", "--others"]
    try:
        listed = subprocess.run(
            [*command, "--exclude-standard"],
            cwd=folder,
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return [folder / os.fsdecode(name) for name in listed.split(b"\0") if name]
