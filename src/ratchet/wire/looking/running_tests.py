"""Tests of a repository, and the command that runs them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ratchet.wire.looking.inventory import InventoryProject, Place, ProjectTests
from ratchet.wire.looking.listing import FileListing, line_at
from ratchet.wire.looking.projects import project_of, table

_PYTHON_CASE = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+test\w*[ \t]*\(", re.M)
_PYTHON_NAME = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test|tests)\.py$")
_SCRIPT_CASE = re.compile(r"^[ \t]*(?:it|test)(?:\.\w+)*\s*\(", re.M)
_SCRIPT_NAME = re.compile(r"(?:\.(?:test|spec)\.[mc]?[jt]sx?$|(?:^|/)__tests__/.*\.[mc]?[jt]sx?$)")
_GO_CASE = re.compile(r"^func Test\w*\(", re.M)
_NO_TEST = re.compile(r"no test|(?:^|[;&|]\s*)(?:exit\b|true\s*$|false\s*$|echo\b[^;&|]*$)", re.I)
_TARGET = re.compile(r"^(tests?)[ \t]*:(?!=)[^\n]*\n([ \t]+\S[^\n]*)", re.M)
_PYTEST = re.compile(r"^[ \t]*(?:import pytest|from pytest\b)|\bpytest\.|^def test", re.M)


def find_tests(listing: FileListing, projects: list[InventoryProject]) -> Iterator[ProjectTests]:
    """Tests by project and language; a command without tests in its project does not count."""
    folders = {project.folder for project in projects}
    groups: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    for path in listing.paths:
        for language, name, case in (
            ("Python", _PYTHON_NAME, _PYTHON_CASE),
            ("JavaScript", _SCRIPT_NAME, _SCRIPT_CASE),
            ("Go", re.compile(r"_test\.go$"), _GO_CASE),
        ):
            if name.search(path) and (cases := len(case.findall(listing.text(path) or ""))):
                groups[project_of(path, folders), language].append((path, cases))
    for (folder, language), files in sorted(groups.items()):
        declared = _declared(listing, folder, language)
        command, place = declared or (
            _usual(listing, folder, language, files),
            Place(files[0][0], 1),
        )
        cases = sum(count for _, count in files)
        yield ProjectTests(command, folder, place, declared is not None, len(files), cases)


def _usual(listing: FileListing, folder: str, language: str, files: list[tuple[str, int]]) -> str:
    """The command that starts the runner for which the tests are written."""
    if language == "Go":
        return "go test ./..."
    texts = [listing.text(path) or "" for path, _ in files]
    if language == "Python":
        locks = (("uv.lock", "uv run "), ("poetry.lock", "poetry run "), ("pdm.lock", "pdm run "))
        prefix = next((run for lock, run in locks if listing.folder_has(folder, lock)), "")
        plain = not any(_PYTEST.search(text) for text in texts)
        return prefix + ("python -m unittest discover" if plain else "python -m pytest")
    packages = _packages(listing, folder)
    for runner, command in (
        ("vitest", "npx vitest run"),
        ("jest", "npx jest"),
        ("mocha", "npx mocha"),
    ):
        if runner in packages or any(
            f"'{runner}'" in text or f'"{runner}"' in text for text in texts
        ):
            return command
    if any("bun:test" in text for text in texts):
        return "bun test"
    typed = any(path.endswith(("ts", "tsx")) for path, _ in files)
    return "npx tsx --test" if typed else "node --test"


def _declared(listing: FileListing, folder: str, language: str) -> tuple[str, Place] | None:
    """The test command that a project's own files declare; of several, the most usual one."""
    prefix = "" if folder == "." else f"{folder}/"
    of_script = re.compile(r"\b(?:npm|pnpm|yarn|npx|vitest|jest|mocha|node|bun|go)\b")
    for name in ("Makefile", "makefile", "justfile", "Justfile"):
        text = listing.text(prefix + name) or ""
        for target in _TARGET.finditer(text):
            if (language == "Python") != bool(of_script.search(target[2])):
                tool = "just" if name.lower() == "justfile" else "make"
                return f"{tool} {target[1]}", Place(prefix + name, line_at(text, target.start()))
    if language == "JavaScript":
        path = prefix + "package.json"
        scripts = _package(listing, folder).get("scripts")
        for name in ("test", "test:unit", "tests"):
            runs = scripts.get(name) if isinstance(scripts, dict) else None
            if isinstance(runs, str) and runs.strip() and not _NO_TEST.search(runs):
                text = listing.text(path) or ""
                line = line_at(text, max(0, text.find(f'"{name}"')))
                return "npm test" if name == "test" else f"npm run {name}", Place(path, line)
    if language == "Python":
        path = prefix + "pyproject.toml"
        tools = table(listing.text(path) or "").get("tool", {})
        for tool, key, runner in (("poe", "tasks", "poe"), ("pdm", "scripts", "pdm run")):
            if "test" in (tools.get(tool, {}).get(key) or {}):
                return f"{runner} test", Place(path, 1)
        for name, command in (("tox.ini", "tox"), ("noxfile.py", "nox")):
            if "pytest" in (listing.text(prefix + name) or ""):
                return command, Place(prefix + name, 1)
    return None


def _package(listing: FileListing, folder: str) -> dict[str, Any]:
    prefix = "" if folder == "." else f"{folder}/"
    try:
        package = json.loads(listing.text(prefix + "package.json") or "{}")
    except ValueError:
        return {}
    return package if isinstance(package, dict) else {}


def _packages(listing: FileListing, folder: str) -> set[str]:
    package = _package(listing, folder)
    return {
        name for key in ("dependencies", "devDependencies") for name in (package.get(key) or {})
    }
