"""Finds the test files related to a function, by static analysis of imports."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from ratchet.source.tree import Module, SourceTree

Kind = Literal["pytest", "unittest"]

_TEST_FILE = re.compile(r"(test_.*|.*_test|tests)\.py")


class TestFile(msgspec.Struct, frozen=True):
    """A test file related to a function."""

    __test__ = False

    file: Path
    kind: Kind
    distance: int
    """Number of imports from the test to the function's module."""
    mentions: bool
    """Whether the test mentions the function's name."""


def related_tests(tree: SourceTree, file: Path, function: str) -> list[TestFile]:
    """Find test files that load a function's module and name the function or import it directly.

    Those that name it come first. Without any of these, the nearest test files are returned.

    Args:
        tree: The repository.
        file: The module's file.
        function: The function's bare name.
    """
    test_files = []
    for test in tree.files:
        if not _TEST_FILE.fullmatch(test.name):
            continue
        module = tree.read(test)
        if module is None:
            continue
        distance = _distance(tree, [module, *_conftests(tree, test)], file)
        if distance is not None:
            names = {n.id for n in ast.walk(module.tree) if isinstance(n, ast.Name)}
            names |= {n.attr for n in ast.walk(module.tree) if isinstance(n, ast.Attribute)}
            names |= {
                a.name
                for n in ast.walk(module.tree)
                for a in getattr(n, "names", [])
                if isinstance(a, ast.alias)
            }
            test_files.append(TestFile(test, _kind(module), distance, function in names))
    nearest = min((test_file.distance for test_file in test_files), default=0)
    # In a package whose __init__ imports everything, every test loads every module.
    near = [test_file for test_file in test_files if test_file.mentions or test_file.distance == 1]
    near = near or [test_file for test_file in test_files if test_file.distance == nearest]
    return sorted(
        near, key=lambda test_file: (not test_file.mentions, test_file.distance, test_file.file)
    )


def _distance(tree: SourceTree, start: Iterable[Module], target: Path) -> int | None:
    waiting = deque((module, 0) for module in start)
    visited = {module.file for module, _ in waiting}
    while waiting:
        module, distance = waiting.popleft()
        for file in tree.loads(module):
            if file == target:
                return distance + 1
            if file in visited:
                continue
            visited.add(file)
            loaded = tree.read(file)
            if loaded is not None:
                waiting.append((loaded, distance + 1))
    return None


def _conftests(tree: SourceTree, test: Path) -> list[Module]:
    conftests = []
    for folder in test.parents:
        module = tree.read(folder / "conftest.py") if (folder / "conftest.py").is_file() else None
        if module is not None:
            conftests.append(module)
        if folder == tree.root:
            break
    return conftests


def _kind(module: Module) -> Kind:
    """Test framework of a file: unittest only if it uses no other, as pytest runs those too."""
    for node in module.tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith(
            "test"
        ):
            return "pytest"
    text = module.text
    return "unittest" if "unittest" in text and "pytest" not in text else "pytest"
