"""Tests of a repository, and the commands that run them."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from ratchet.wire.facts import FoundTests, Manifest, Place
from ratchet.wire.looking.files import RepositoryFiles, standing_of
from ratchet.wire.looking.manifests import project_of

_PYTHON_CASE = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+test\w*[ \t]*\(", re.M)
_PYTHON_NAME = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test|tests)\.py$")
_UNITTEST = re.compile(r"\b(?:TestCase|IsolatedAsyncioTestCase)\b")
_PYTEST = re.compile(r"^[ \t]*(?:import pytest|from pytest\b)|\bpytest\.", re.M)
_SCRIPT_CASE = re.compile(r"^[ \t]*(?:it|test)(?:\.\w+)*\s*\(", re.M)
_SCRIPT_NAME = re.compile(r"(?:\.(?:test|spec)\.[mc]?[jt]sx?$|(?:^|/)__tests__/.*\.[mc]?[jt]sx?$)")
_SCRIPT_RUNNERS = (
    ("vitest", re.compile(r"['\"]vitest['\"]"), "npx vitest run"),
    ("node", re.compile(r"['\"]node:test['\"]"), "npx tsx --test"),
    ("bun", re.compile(r"['\"]bun:test['\"]"), "bun test"),
    ("jest", re.compile(r"['\"]@jest/globals['\"]"), "npx jest"),
)
_NO_TEST = re.compile(r"no test|(?:^|[;&|]\s*)(?:exit\b|true\s*$|false\s*$|echo\b[^;&|]*$)", re.I)
_TARGET = re.compile(r"^(tests?|check)[ \t]*:(?!=)[^\n]*\n((?:[ \t]+[^\n]*\n?)*)", re.M)
_SESSION = re.compile(r"@(?:nox\.)?session[^\n]*\n(?:@[^\n]*\n)*def[ \t]+(\w*tests?\w*)")
_OF_SCRIPTS = re.compile(r"\b(?:npm|pnpm|yarn|npx|vitest|jest|mocha|node|bun)\b")
_OF_PYTHON = re.compile(r"\b(?:pytest|unittest|tox|nox|python3?|uv|poetry|coverage)\b")


@dataclass
class _Found:
    """Files of tests of one language in one project."""

    paths: list[str] = field(default_factory=list)
    cases: int = 0
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Declared:
    """A command that a file declares."""

    command: str
    place: Place
    runs: str


def find_tests(files: RepositoryFiles, manifests: tuple[Manifest, ...]) -> Iterator[FoundTests]:
    """Tests by project and language; a command without a test in its project is none."""
    groups: dict[tuple[str, str], _Found] = defaultdict(_Found)
    for path in files.paths:
        python = bool(_PYTHON_NAME.search(path))
        if not python and not _SCRIPT_NAME.search(path):
            continue
        if standing_of(path).kind not in ("test", "own", "evaluation"):
            continue
        text = files.text(path)
        cases = len((_PYTHON_CASE if python else _SCRIPT_CASE).findall(text or ""))
        if text is None or not cases:
            continue
        found = groups[project_of(files, path), "Python" if python else "JavaScript"]
        found.paths.append(path)
        found.texts.append(text)
        found.cases += cases
    for (project, language), found in sorted(groups.items()):
        runner, command, why = (
            _python(files, manifests, project, found)
            if language == "Python"
            else _scripts(manifests, project, found)
        )
        declared = next(
            (one for one in _declared(files, project, language) if _fits(one, language)), None
        )
        yield FoundTests(
            project,
            runner,
            declared.command if declared else command,
            declared.place if declared else Place(found.paths[0], 1),
            len(found.paths),
            found.cases,
            0.95 if declared else 0.85,
            f"declared in {declared.place.path}; {why}" if declared else why,
        )


def _python(
    files: RepositoryFiles, manifests: tuple[Manifest, ...], project: str, found: _Found
) -> tuple[str, str, str]:
    prefix = {"uv": "uv run ", "poetry": "poetry run ", "pdm": "pdm run "}.get(
        next((one.manager for one in manifests if _folder(one.path) == project), ""), ""
    )
    folder = "" if project == "." else project + "/"
    beside = {"pytest.ini", "conftest.py", "tests/conftest.py"}
    uses = next((p for p, t in zip(found.paths, found.texts, strict=True) if _PYTEST.search(t)), "")
    if not uses:
        uses = next((folder + one for one in sorted(beside) if folder + one in files.known), "")
    if uses:
        return "pytest", prefix + "python -m pytest", f"{uses} is for pytest"
    if all(_UNITTEST.search(text) for text in found.texts):
        return "unittest", prefix + "python -m unittest discover", "the tests are of unittest"
    return "pytest", prefix + "python -m pytest", f"{found.paths[0]} has test functions"


def _scripts(manifests: tuple[Manifest, ...], project: str, found: _Found) -> tuple[str, str, str]:
    for runner, pattern, command in _SCRIPT_RUNNERS:
        for path, text in zip(found.paths, found.texts, strict=True):
            if pattern.search(text):
                return runner, _alone(command, found), f"{path} imports {runner}'s tests"
    for manifest in manifests:
        if _folder(manifest.path) == project:
            for runner in ("vitest", "jest", "mocha", "ava"):
                if runner in manifest.dependencies:
                    command = "npx vitest run" if runner == "vitest" else f"npx {runner}"
                    return runner, command, f"{manifest.path} depends on {runner}"
    return "node", _alone("npx tsx --test", found), "no runner is declared"


def _alone(command: str, found: _Found) -> str:
    """Node runs JavaScript by itself; it needs a loader for TypeScript."""
    typed = any(path.endswith(("ts", "tsx")) for path in found.paths)
    return command if typed else command.replace("npx tsx --test", "node --test")


def _fits(one: _Declared, language: str) -> bool:
    python, scripts = _OF_PYTHON.search(one.runs), _OF_SCRIPTS.search(one.runs)
    if python or scripts:
        return bool(python if language == "Python" else scripts)
    return True


def _declared(files: RepositoryFiles, project: str, language: str) -> Iterator[_Declared]:
    """Commands of a project's own files, the one that people type first."""
    folder = "" if project == "." else project + "/"
    for name in ("Makefile", "makefile", "justfile", "Justfile"):
        text = files.text(folder + name) or ""
        for target in _TARGET.finditer(text):
            if target[1] != "check" and target[2].strip():
                tool = "just" if name.lower() == "justfile" else "make"
                yield _Declared(f"{tool} {target[1]}", _at(folder + name, text, target), target[2])
    if language == "JavaScript":
        yield from _of_package(files, folder + "package.json")
        return
    yield from _of_pyproject(files, folder + "pyproject.toml")
    text = files.text(folder + "tox.ini") or ""
    section = re.search(r"^\[testenv[^\]]*\]", text, re.M)
    if section and re.search(r"^commands\s*=", text[section.start() :], re.M):
        yield _Declared("tox", _at(folder + "tox.ini", text, section), "tox")
    text = files.text(folder + "noxfile.py") or ""
    session = _SESSION.search(text)
    if session:
        place = _at(folder + "noxfile.py", text, session)
        yield _Declared(f"nox -s {session[1]}", place, "nox")


def _of_package(files: RepositoryFiles, path: str) -> Iterator[_Declared]:
    text = files.text(path) or ""
    try:
        scripts = msgspec.json.decode(text.encode(), type=dict).get("scripts") or {}
    except (msgspec.DecodeError, msgspec.ValidationError):
        return
    if not isinstance(scripts, dict):
        return
    for name in ("test", "test:unit", "tests"):
        runs = scripts.get(name)
        if isinstance(runs, str) and runs.strip() and not _NO_TEST.search(runs):
            place = re.search(rf'"{name}"\s*:', text)
            command = "npm test" if name == "test" else f"npm run {name}"
            yield _Declared(command, _at(path, text, place), "npm " + runs)


def _of_pyproject(files: RepositoryFiles, path: str) -> Iterator[_Declared]:
    text = files.text(path) or ""
    try:
        tool = tomllib.loads(text).get("tool", {})
        tables = (
            ("poe", tool.get("poe", {}).get("tasks", {})),
            ("pdm run", tool.get("pdm", {}).get("scripts", {})),
            ("hatch run", tool.get("hatch", {}).get("envs", {}).get("default", {}).get("scripts")),
        )
    except (tomllib.TOMLDecodeError, AttributeError):
        return
    for runs, tasks in tables:
        if isinstance(tasks, dict) and "test" in tasks:
            place = re.search(r"^test\s*=|\.test\]", text, re.M)
            yield _Declared(f"{runs} test", _at(path, text, place), "python")


def _at(path: str, text: str, found: re.Match[str] | None) -> Place:
    return Place(path, text.count("\n", 0, found.start()) + 1 if found else 1)


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "."
