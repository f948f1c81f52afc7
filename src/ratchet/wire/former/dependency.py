"""Ratchet's package in the manifest that a project installs from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ratchet.wire.changes import Changes, FileChange, LeftAlone, Piece
from ratchet.wire.facts import Place, RepositoryLook
from ratchet.wire.former.requirement import NAMED, PACKAGE, TOO_OLD, requirement
from ratchet.wire.former.text_manifests import (
    in_conda,
    in_requirements,
    in_setup_cfg,
    in_setup_py,
)
from ratchet.wire.former.toml_manifests import in_pipfile, in_pyproject
from ratchet.wire.looking.former_frameworks import FRAMEWORKS

Edit = Callable[[bytes], Piece | str | None]

_MANIFESTS: tuple[tuple[str, Edit], ...] = (
    ("pyproject.toml", in_pyproject),
    ("Pipfile", in_pipfile),
    ("environment.yml", in_conda),
    ("environment.yaml", in_conda),
    ("requirements.in", in_requirements),
    ("requirements.txt", in_requirements),
    *(
        (f"requirements/{name}{ending}", in_requirements)
        for name in ("base", "main", "common", "requirements", "prod", "production")
        for ending in (".in", ".txt")
    ),
    ("setup.cfg", in_setup_cfg),
    ("setup.py", in_setup_py),
)
_LOCKS = {
    "uv.lock": "uv lock",
    "poetry.lock": "poetry lock",
    "pdm.lock": "pdm lock",
    "Pipfile.lock": "pipenv lock",
    "conda-lock.yml": "conda-lock",
    "pixi.lock": "pixi lock",
}


class FoundManifest(NamedTuple):
    """A file that declares what a project installs."""

    path: str
    text: str
    made: Piece | str
    """What would be added, or why nothing can be."""

    @property
    def step(self) -> str:
        """What a person does where nothing is added."""
        return (
            f"Then add to it: {requirement()}"
            if self.made == TOO_OLD
            else f"Add to it: {requirement()}"
        )

    @property
    def place(self) -> Place:
        """Where Ratchet's package is named; the whole file if it is not."""
        for number, line in enumerate(self.text.splitlines(), 1):
            if _names_package(line):
                return Place(self.path, number)
        return Place(self.path)


def dependency(root: Path, look: RepositoryLook, project: str) -> Changes:
    """Add Ratchet's package to the manifest that declares the agent's framework.

    Lock files stay as they are; the command that updates them is said.
    """
    found = manifest_of(root, look, project)
    if found is None:
        why = f"No manifest of Python packages is there. Install it: pip install {PACKAGE}"
        if (root / project / "package.json").is_file():
            step = f"uv tool install '{PACKAGE}[tool]'"
            why = f"Its command line is a Python package. Install it: {step}"
        return Changes(left_alone=(LeftAlone(PACKAGE, Place(project), why),))
    if found.place.line:
        return Changes()
    if isinstance(found.made, str):
        why = f"{found.made} {found.step}"
        return Changes(left_alone=(LeftAlone(PACKAGE, Place(found.path), why),))
    change = FileChange(found.path, "Ratchet's package.", (found.made,))
    return Changes((change,), tuple(_locks(root, found)))


def manifest_of(root: Path, look: RepositoryLook, project: str) -> FoundManifest | None:
    """The manifest of a project: the nearest that declares its framework, else the nearest."""
    named = {one.name for one in look.frameworks}
    frameworks = {
        _normal(name) for one in FRAMEWORKS if one.name in named for name in one.distributions
    }
    found = list(_manifests(root, project))
    having = [one for one in found if _declared(one.text) & frameworks]
    usable = [one for one in having or found if not isinstance(one.made, str)]
    return next(iter([*usable, *having, *found]), None)


def _manifests(root: Path, project: str) -> Iterator[FoundManifest]:
    folder = PurePosixPath(project)
    for above in (folder, *folder.parents):
        for name, edit in _MANIFESTS:
            path = str(above / name)
            file = root / path
            if not file.is_file():
                continue
            if file.resolve() != root.resolve() / path:
                continue  # a link: the file that it leads to is what is installed from
            data = file.read_bytes()
            try:
                made = edit(data)
            except ValueError as error:
                made = f"It cannot be read: {error}."
            if made is not None:
                yield FoundManifest(path, data.decode(errors="replace"), made)


def _locks(root: Path, found: FoundManifest) -> Iterator[LeftAlone]:
    folder = (root / found.path).parent
    inner = PurePosixPath(found.path).parent
    locks = {name: command for name, command in _LOCKS.items() if (folder / name).exists()}
    if found.path.endswith(".in") and (root / found.path).with_suffix(".txt").exists():
        source = PurePosixPath(found.path).name
        locks[PurePosixPath(found.path).with_suffix(".txt").name] = f"pip-compile {source}"
    for name, command in locks.items():
        where = "" if str(inner) == "." else f" in {inner}"
        why = f"Lock files are not edited. Update it{where}: {command}"
        yield LeftAlone(name, Place(str(inner / name)), why)


def _declared(text: str) -> set[str]:
    """Names in a manifest's text that could be packages."""
    return {_normal(name) for name in re.findall(r"[A-Za-z0-9][\w.-]*[A-Za-z0-9]", text)}


def _names_package(line: str) -> bool:
    inside = re.split(r"[\[,]", line.partition("#")[0])
    return any(NAMED.match(part) for part in (line, *inside))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
