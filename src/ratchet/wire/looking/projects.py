"""The projects of a repository, the packages that their manifests declare, and its frameworks."""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from pathlib import PurePosixPath
from typing import Any

from ratchet.wire.looking.frameworks import RANK, SDKS, framework_of, framework_of_distribution
from ratchet.wire.looking.inventory import InventoryProject, Place, UsedFramework
from ratchet.wire.looking.listing import FileListing, folder_of, line_at

_MANIFESTS = (
    *("pyproject.toml", "requirements.txt", "setup.py", "setup.cfg", "Pipfile", "environment.yml"),
    *("package.json", "langgraph.json", "go.mod", "Cargo.toml", "Gemfile", "composer.json"),
)
_REQUIREMENTS = re.compile(r"(?:^|/)(?:requirements[\w.-]*\.(?:txt|in)|requirements/[\w.-]+\.txt)$")
_NAME = re.compile(r"[A-Za-z0-9@][\w./@-]*")
_PYTHON = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+([\w., \t]+))", re.M)
_SCRIPT = re.compile(r"""(?:\bfrom|\bimport|\brequire\(|\bimport\()\s*["']([^"'\n]+)["']""")
_SCRIPTS = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")


def find_projects(listing: FileListing, used: tuple[UsedFramework, ...]) -> list[InventoryProject]:
    """Folders with a manifest, outermost first, with the frameworks used in each."""
    manifests: dict[str, list[str]] = defaultdict(list)
    for path in listing.named(*_MANIFESTS):
        manifests[folder_of(path)].append(path)
    folders = sorted(manifests, key=lambda folder: (folder.count("/"), folder))
    frameworks: dict[str, set[str]] = defaultdict(set)
    for framework in used:
        for path in (framework.place.path, *framework.declared):
            frameworks[project_of(path, manifests)].add(framework.name)
    return [
        InventoryProject(
            folder,
            tuple(manifests[folder]),
            tuple(sorted(frameworks[folder], key=RANK.__getitem__)),
        )
        for folder in folders
    ]


def project_of(path: str, folders: Any) -> str:
    """The innermost of some folders that holds a path; `.` if none does."""
    above = (str(folder) for folder in PurePosixPath(path).parents)
    return next((folder for folder in above if folder in folders), ".")


def find_frameworks(listing: FileListing) -> tuple[UsedFramework, ...]:
    """Frameworks that are imported, or that a manifest declares; orchestrating ones first."""
    declared: dict[str, list[Place]] = defaultdict(list)
    for path in listing.paths:
        if _REQUIREMENTS.search(path) or path.rpartition("/")[2] in _MANIFESTS:
            for name, line in _declared(path, listing.text(path) or ""):
                declared[name].append(Place(path, line))
    imported: dict[str, list[Place]] = defaultdict(list)
    for path in listing.paths:
        if path.endswith((".py", *_SCRIPTS)):
            for name, line in _imported(listing, path):
                imported[name].append(Place(path, line))
    return tuple(
        UsedFramework(
            name,
            (imported.get(name) or declared[name])[0],
            len(imported.get(name, ())),
            tuple(dict.fromkeys(place.path for place in declared.get(name, ()))),
            name in SDKS,
        )
        for name in sorted({*declared, *imported}, key=RANK.__getitem__)
    )


def _declared(path: str, text: str) -> set[tuple[str, int]]:
    """Frameworks that a manifest names, each with its first line."""
    names: dict[str, int] = {}
    if path.endswith("package.json"):
        try:
            package = json.loads(text)
            tables = (package.get(key) or {} for key in ("dependencies", "devDependencies"))
            packages = [name for table in tables for name in table]
        except (ValueError, AttributeError, TypeError):
            return set()
        for name in packages:
            if framework := framework_of(name):
                names.setdefault(framework, line_at(text, max(0, text.find(f'"{name}"'))))
    elif not path.endswith(".json"):
        for number, line in enumerate(text.splitlines(), 1):
            for word in _NAME.findall(line.partition("#")[0]):
                framework = framework_of_distribution(word)
                if framework and not _is_table(line):
                    names.setdefault(framework, number)
    return set(names.items())


def _is_table(line: str) -> bool:
    return line.lstrip().startswith("[") and line.rstrip().endswith("]") and '"' not in line


def _imported(listing: FileListing, path: str) -> set[tuple[str, int]]:
    """Frameworks that a file imports, each with its first line."""
    names: dict[str, int] = {}
    for module, line in imported_modules(listing, path).items():
        if framework := framework_of(module):
            names.setdefault(framework, line)
    return set(names.items())


def imported_modules(listing: FileListing, path: str) -> dict[str, int]:
    """Full names of the modules and packages that a file imports, each with its first line.

    Of Python, also the repository's own: the folder `agents` is not the package of that name.
    """
    if path in listing.imports:
        return listing.imports[path]
    text = listing.text(path) or ""
    modules = listing.imports.setdefault(path, {})
    if not path.endswith(".py"):
        for statement in _SCRIPT.finditer(text):
            modules.setdefault(statement[1], line_at(text, statement.start()))
        return modules
    for statement in _PYTHON.finditer(text):
        for clause in (statement[1] or statement[2]).split(","):
            module = next(iter(clause.split()), "")
            if framework_of(module) and _is_own(listing, path, module):
                module = f".{module}"
            modules.setdefault(module, line_at(text, statement.start()))
    return modules


def _is_own(listing: FileListing, path: str, dotted: str) -> bool:
    """Whether an import means a module of the repository: its folder `agents`, not a package."""
    head = dotted.partition(".")[0]
    tree = listing.tree(folder_of(path))
    return tree.find(head) is not None or tree.is_folder(head)


def table(text: str) -> dict[str, Any]:
    """The tables of a TOML file; empty if it does not parse."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError:
        return {}
