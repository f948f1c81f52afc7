"""Files, names, make targets and commands that the documentation names exist."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

from ratchet.cli.app import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "ratchet"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "llms.txt",
    ROOT / "skills" / "ratchet" / "SKILL.md",
]
PACKAGES = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
FOLDERS = {"skills", "src", "tests", "docs", "benchmarks", "examples"}
STATE = {"ratchet.db"}
"""Files of a project."""

_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)")
_PATH = re.compile(r"[\w.-]+(?:/[\w.*-]+)+/?|(?:[\w.-]+/)+")
_MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
_COMMAND = re.compile(r"(?:^|[\s/$])ratchet ([a-z]+)\b", re.MULTILINE)
_NAME_IN = re.compile(r"`([A-Za-z_]\w*)`[^`|]{0,12} (?:in|of) `((?:\w+/)+\w+\.py)`")
_PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b")
_DOTTED = re.compile(r"ratchet(?:\.[A-Za-z_]\w*)+")


def _spans(page: Path) -> list[str]:
    return _CODE.findall(_FENCE.sub("", page.read_text()))


def _code(page: Path) -> str:
    """Everything in the page that is code, in fences or in a line of text."""
    text = page.read_text()
    return "\n".join([*_FENCE.findall(text), *_CODE.findall(_FENCE.sub("", text))])


def _exists(path: str) -> bool:
    roots = (ROOT, ROOT / "src", SOURCE)
    return any(next(root.glob(path.rstrip("/")), None) is not None for root in roots)


def _defined(path: Path) -> set[str]:
    found = set()
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def _importable(name: str) -> bool:
    """Whether a dotted name is a module, or something that one holds."""
    module, _, rest = name, "", ""
    while module:
        try:
            found: object = importlib.import_module(module)
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
            continue
        for part in filter(None, rest.split(".")):
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.fixture(scope="module")
def source_text() -> str:
    """Text of the package and of the npm package."""
    files = [*SOURCE.rglob("*.py"), *(ROOT / "javascript" / "src").glob("*.ts")]
    return "\n".join(path.read_text() for path in sorted(files))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_paths_that_a_page_names_exist(page: Path) -> None:
    named = {span.removeprefix("ratchet/") for span in _spans(page) if _PATH.fullmatch(span)}
    ours = {path for path in named if path.split("/")[0] in PACKAGES | FOLDERS}
    assert {path for path in ours if not _exists(path) and not _PLACEHOLDER.search(path)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_that_a_page_links_to_exist(page: Path) -> None:
    linked = {each for each in _LINK.findall(_FENCE.sub("", page.read_text())) if ":" not in each}
    assert {each for each in linked if not (page.parent / each).exists()} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_make_targets_that_a_page_names_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(_MAKE.findall(_code(page))) - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_that_a_page_names_exist(page: Path) -> None:
    assert set(_COMMAND.findall(_code(page))) - set(COMMANDS) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_names_of_ratchet_that_a_page_uses_exist(page: Path, source_text: str) -> None:
    named = {span.partition("(")[0] for span in _spans(page)}
    names = {name for name in named if _DOTTED.fullmatch(name) and name not in STATE}
    missing = {name for name in names if not _importable(name) and f'"{name}"' not in source_text}
    assert missing == set(), "Neither a name to import nor an attribute that the source writes."


def test_the_names_that_a_page_puts_into_a_file_are_defined_there() -> None:
    found = {pair for page in PAGES for pair in _NAME_IN.findall(page.read_text())}
    missing = {
        (name, path)
        for name, path in found
        if (SOURCE / path).exists() and name not in _defined(SOURCE / path)
    }
    assert len(found) > 10
    assert missing == set()


def _floors(page: Path) -> list[list[str]]:
    drawing = re.search(r"## The house\n.*?```text\n(.*?)```", page.read_text(), re.DOTALL)
    assert drawing
    names = [re.match(r"(?: +[a-z]+/)+", line) for line in drawing[1].splitlines()]
    return [re.findall(r"([a-z]+)/", each[0]) for each in names if each]


def test_the_drawings_of_the_house_are_the_import_contract() -> None:
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [
        [name for name in re.findall(r"ratchet\.([a-z]+)", layer) if name in PACKAGES]
        for layer in configured["contracts"][0]["layers"]
    ]
    assert {name for floor in layers for name in floor} == PACKAGES
    for page in (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"):
        assert [sorted(floor) for floor in _floors(page)] == [sorted(floor) for floor in layers]


def test_each_benchmark_is_in_the_list_of_benchmarks() -> None:
    listed = re.findall(r"^\| `(benchmarks/\w+\.py)`", PAGES[1].read_text(), re.MULTILINE)
    files = [str(path.relative_to(ROOT)) for path in (ROOT / "benchmarks").glob("*.py")]
    assert sorted(listed) == sorted(files)
