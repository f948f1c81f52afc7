"""Manifests: what a repository depends on, and where its projects begin."""

from __future__ import annotations

import re
import tomllib

import msgspec

from ratchet.wire.facts import Manifest
from ratchet.wire.looking.files import RepositoryFiles

_MANIFESTS = {
    "pyproject.toml": "pyproject",
    "requirements.txt": "requirements",
    "setup.py": "setup.py",
    "setup.cfg": "setup.cfg",
    "Pipfile": "pipfile",
    "environment.yml": "conda",
    "package.json": "package.json",
    "langgraph.json": "langgraph",
}
_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*([^;#]*)")


def find_manifests(files: RepositoryFiles) -> tuple[Manifest, ...]:
    """Files that declare dependencies, outermost first."""
    found = []
    for path in files.named(*_MANIFESTS):
        name = path.rpartition("/")[2]
        text = files.text(path) or ""
        if not _declares(name, text):
            continue
        beside = set(files.folders.get(path.rpartition("/")[0], ()))
        manager, declared = "pip", ""
        dependencies: dict[str, str] = {}
        try:
            if name == "pyproject.toml":
                data = tomllib.loads(text)
                project = data.get("project", {})
                declared = str(project.get("name", ""))
                for one in project.get("dependencies", []):
                    match = _REQUIREMENT.match(one)
                    if match:
                        dependencies[match[1].lower()] = match[2].strip(" ()")
                poetry = data.get("tool", {}).get("poetry", {})
                for key, value in poetry.get("dependencies", {}).items():
                    dependencies[key.lower()] = value if isinstance(value, str) else ""
                if "uv.lock" in beside:
                    manager = "uv"
                elif poetry or "poetry.lock" in beside:
                    manager = "poetry"
                elif "pdm" in data.get("tool", {}):
                    manager = "pdm"
            elif name == "requirements.txt":
                for line in text.splitlines():
                    match = _REQUIREMENT.match(line)
                    if match:
                        dependencies[match[1].lower()] = match[2].strip()
            elif name == "package.json":
                manager = (
                    "pnpm"
                    if "pnpm-lock.yaml" in beside
                    else "yarn"
                    if "yarn.lock" in beside
                    else "npm"
                )
                package = msgspec.json.decode(text.encode(), type=dict)
                declared = str(package.get("name", ""))
                for section in ("dependencies", "devDependencies"):
                    dependencies.update(
                        {k: str(v) for k, v in (package.get(section) or {}).items()}
                    )
            elif name == "environment.yml":
                manager = "conda"
            elif name == "langgraph.json":
                manager = ""
        except (ValueError, TypeError, AttributeError) as error:
            files.unreadable[path] = f"does not parse: {type(error).__name__}"
        found.append(Manifest(path, _MANIFESTS[name], manager, declared, dependencies))
    return tuple(found)


def _declares(name: str, text: str) -> bool:
    """Whether a file is what its name says: a module may be named `setup.py` too."""
    return (
        name != "setup.py" or re.search(r"\b(?:setuptools|distutils|skbuild)\b", text) is not None
    )


def project_of(files: RepositoryFiles, path: str) -> str:
    """Folder of the project that a file belongs to: the nearest one with a manifest."""
    folder = path.rpartition("/")[0]
    while folder:
        names = [name for name in files.folders.get(folder, ()) if name in _MANIFESTS]
        if any(one != "setup.py" for one in names):
            return folder
        if names and _declares("setup.py", files.text(f"{folder}/setup.py") or ""):
            return folder
        folder = folder.rpartition("/")[0]
    return "."
