"""One name means one thing: no two public classes of the house share a name."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest
from tests.packaging.source_trees import SOURCE, source_trees

pytestmark = pytest.mark.xdist_group("source-trees")

TWINS = {"client", "store"}
"""The repositories of a client have the names and the shape of those of a store."""

ABANDONED = frozenset(
    {
        *("Alike", "Chosen", "Contender", "Course", "Crew", "Desk", "Journey", "Kept", "Known"),
        *("Line", "Looking", "Luck", "Patience", "Purse", "Quiet", "Said", "Seat", "Shelf"),
        *("Together", "Told", "Tried", "Wanted"),
    }
)
"""Words that this project once had for common things: a transport, a ledger, a worker pool."""


def _classes() -> dict[str, list[str]]:
    """Modules by the name of each public class at their top."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, (_, tree) in source_trees().items():
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    return found


def test_no_two_public_classes_share_a_name() -> None:
    shared = {
        name: modules
        for name, modules in _classes().items()
        if len(modules) > 1 and {module.split(".")[0] for module in modules} != TWINS
    }
    assert shared == {}, "Give each a name of its own."


def test_no_class_or_module_has_a_name_that_only_this_project_knows() -> None:
    modules = {path.stem.strip("_") for path in source_trees()}
    assert not ABANDONED & set(_classes())
    assert not {word.lower() for word in ABANDONED} & modules
