"""Adds the SDK to the manifest that a project installs from, if a resolver says that it fits."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import msgspec

from ratchet.wire.changes import FileChange, LeftAlone
from ratchet.wire.looking.frameworks import framework_of_distribution
from ratchet.wire.looking.inventory import Place
from ratchet.wire.project_files.manifests import Unedited, read_manifest, with_requirement
from ratchet.wire.project_files.requirement import PACKAGE
from ratchet.wire.project_files.resolving import Unresolved, resolved_version

_MANIFESTS = (
    *("pyproject.toml", "requirements.in", "requirements.txt", "requirements/base.txt"),
    *("requirements/main.txt", "requirements/prod.txt", "Pipfile", "environment.yml"),
    *("environment.yaml", "setup.cfg", "setup.py"),
)
_LOCKS = {"uv.lock": "uv lock", "poetry.lock": "poetry lock", "pdm.lock": "pdm lock"}

_ELSE = "The agent can be run as a command, which needs no installation."


class Edited(msgspec.Struct, frozen=True):
    """A manifest with the SDK."""

    change: FileChange
    version: str
    """The version that the resolver found; the manifest allows it and later ones."""
    next_step: str
    """The command that the user runs next."""


def manifest_of(root: Path, folder: str) -> str | None:
    """The manifest that a project installs from: the nearest that declares a framework.

    Args:
        root: The repository.
        folder: Of the project, relative to it.

    Returns:
        Its path, relative to the repository; the nearest of all if none declares a framework.
    """
    near = PurePosixPath(folder)
    manifests = [
        str(above / name)
        for above in (near, *near.parents)
        for name in _MANIFESTS
        if _is_own(root, str(above / name))
    ]
    having = (path for path in manifests if _declares_framework((root / path).read_bytes()))
    return next(having, manifests[0] if manifests else None)


def with_sdk(root: Path, manifest: str, python: Path) -> Edited | LeftAlone | None:
    """Add the SDK to a manifest, if the project's resolver can resolve the result.

    Args:
        root: The repository.
        manifest: Path of the manifest, relative to it.
        python: The agent's interpreter.

    Returns:
        The change; or why the manifest stays as it is, with what to do; None if it has the SDK.
    """
    file = root / manifest
    uv = file.with_name("uv.lock").exists() or b"[tool.uv" in file.read_bytes()
    try:
        read = read_manifest(manifest, file.read_bytes(), uv=uv)
        if read.has_sdk:
            return None
        version = resolved_version(root, read, python)
        piece = with_requirement(read, version)
    except (Unedited, Unresolved) as error:
        why = f"{manifest} was not changed: {error}. {_ELSE}"
        return LeftAlone(PACKAGE, Place(manifest), why)
    change = FileChange(manifest, "Ratchet's SDK.", (piece,))
    return Edited(change, version, _install(file, python))


def _install(file: Path, python: Path) -> str:
    """The command that installs what a manifest declares now."""
    for lock, command in _LOCKS.items():
        if file.with_name(lock).exists():
            sync = {"uv lock": "uv sync", "poetry lock": "poetry install", "pdm lock": "pdm sync"}
            return f"{command} && {sync[command]}"
    target = "." if file.name == "pyproject.toml" else f"-r {file.name}"
    return f"{python} -m pip install {target}"


def _is_own(root: Path, path: str) -> bool:
    """Whether a path is a regular file; a link's target would be installed instead."""
    file = root / path
    return file.is_file() and file.resolve() == root.resolve() / path


def _declares_framework(data: bytes) -> bool:
    words = data.decode(errors="replace").replace('"', " ").replace("'", " ").split()
    names = (word.split("[")[0].split("=")[0].rstrip("<>~!,;") for word in words)
    return any(map(framework_of_distribution, names))
