"""What a function needs, and which tests touch it: found by reading."""

# ruff: noqa: E501 - sources of small repositories, in strings

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ratchet.source import SourceTree, related_tests
from ratchet.source.closure import closure_of
from ratchet.source.targets import target_named, targets_in
from ratchet.types import InputError

Make = Callable[[Mapping[str, str]], SourceTree]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def of(files: Mapping[str, str]) -> SourceTree:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return SourceTree(tmp_path)

    return of


def needed(tree: SourceTree, module: str, name: str) -> dict[str, list[str]]:
    """First lines of the needed statements by file."""
    found = tree.module(module)
    assert found is not None
    closure = closure_of(tree, found, name)
    assert closure.missing == ()
    shown = {}
    for file, statements in closure.statements.items():
        of = tree.read(file)
        assert of is not None
        lines = of.text.splitlines()
        shown[file.relative_to(tree.root).as_posix()] = [lines[s.lineno - 1] for s in statements]
    return shown


PACKAGE = {
    "pkg/__init__.py": "from .tables import TABLE as SHARED\nfrom .unused import nothing\n",
    "pkg/tables.py": "TABLE = {}\nOTHER = 1\nTABLE['a'] = 1\nTABLE.update(b=2)\nOTHER += 1\n",
    "pkg/words.py": (
        "from __future__ import annotations\nimport re, json\nSTOP = {'a'}\n"
        "def split(text):\n    return [w for w in re.findall('[a-z]+', text) if w not in STOP]\n"
        "def other():\n    return json.dumps(1)\n"
    ),
    "pkg/rank.py": (
        "from . import words\nfrom pkg import SHARED\nimport pkg.deep.far\nLIMIT = 3\nUNUSED = 4\n"
        "class Scorer:\n    weight = LIMIT\n    def score(self, x):\n        return self.weight * x\n"
        "def rank(text):\n    far = pkg.deep.far.away(text)\n"
        "    return [Scorer().score(SHARED.get(w, 0)) for w in words.split(far)]\n"
        "if __name__ == '__main__':\n    print(rank('a'))\n"
    ),
    "pkg/deep/far.py": "def away(x):\n    return near(x)\ndef near(x):\n    return x\ndef no(): ...\n",
    "pkg/unused.py": "nothing = 1\n",
}


def test_only_what_is_needed_is_kept_across_modules(make: Make) -> None:
    assert needed(make(PACKAGE), "pkg.rank", "rank") == {
        "pkg/rank.py": [
            "from . import words",
            "from pkg import SHARED",
            "import pkg.deep.far",
            "LIMIT = 3",
            "class Scorer:",
            "def rank(text):",
        ],
        "pkg/__init__.py": ["from .tables import TABLE as SHARED"],
        "pkg/tables.py": ["TABLE = {}", "TABLE['a'] = 1", "TABLE.update(b=2)"],
        "pkg/words.py": [
            "from __future__ import annotations",
            "import re, json",
            "STOP = {'a'}",
            "def split(text):",
        ],
        "pkg/deep/far.py": ["def away(x):", "def near(x):"],
    }


def test_stars_conditions_and_fallbacks_are_followed(make: Make) -> None:
    files = {
        "a.py": (
            "from b import *\ntry:\n    import ujson as json\nexcept ImportError:\n    import json\n"
            "if True:\n    MODE = 'x'\nelse:\n    MODE = 'y'\n"
            "def f():\n    return json.dumps([helped(), MODE])\n"
        ),
        "b.py": "def helped():\n    return _hidden\n_hidden = 1\ndef spare(): ...\n",
    }
    assert needed(make(files), "a", "f") == {
        "a.py": ["from b import *", "try:", "if True:", "def f():"],
        "b.py": ["def helped():", "_hidden = 1"],
    }


def test_a_module_that_is_passed_around_is_kept_whole(make: Make) -> None:
    files = {"a.py": "import b\ndef f():\n    return vars(b)\n", "b.py": "x = 1\ny = 2\n"}
    assert needed(make(files), "a", "f")["b.py"] == ["x = 1", "y = 2"]


def test_names_of_functions_inside_are_not_taken_for_globals(make: Make) -> None:
    files = {
        "a.py": "x = 1\ny = 2\ndef f():\n    x = 3\n    def g(y):\n        return x + y\n    return g\n"
    }
    assert needed(make(files), "a", "f")["a.py"] == ["def f():"]


def test_names_in_quoted_annotations_and_decorators_are_needed(make: Make) -> None:
    files = {
        "a.py": "import functools\nclass T: ...\n@functools.cache\ndef f(x: 'T') -> 'list[T]':\n    return [x]\n"
    }
    assert needed(make(files), "a", "f")["a.py"] == [
        "import functools",
        "class T: ...",
        "def f(x: 'T') -> 'list[T]':",
    ]


def test_packages_from_elsewhere_are_named(make: Make) -> None:
    tree = make(
        {"a.py": "import numpy as np\nfrom yaml import load\ndef f():\n    return np.ones(load)\n"}
    )
    module = tree.module("a")
    assert module is not None
    assert set(closure_of(tree, module, "f").outside) == {"numpy", "yaml"}


def test_targets_are_found_by_decorator_and_by_comment(make: Make) -> None:
    tree = make(
        {
            "a.py": (
                "import ratchet\nfrom ratchet import evolve as improves\n@ratchet.evolve\ndef one(): ...\n"
                "class C:\n    @improves(name='second')\n    def two(self): ...\n"
                "# EVOLVE-BLOCK-START\ndef three(): ...\n# EVOLVE-BLOCK-END\n"
            ),
            "b.py": "def evolve(f): return f\n@evolve\ndef not_ours(): ...\n",
        }
    )
    assert [(t.name, t.module, t.qualname) for t in targets_in(tree)] == [
        ("one", "a", "one"),
        ("second", "a", "C.two"),
        ("three", "a", "three"),
    ]
    assert target_named(tree, "b:not_ours").qualname == "not_ours"
    assert target_named(tree, "a.py::C.two").line == 7
    with pytest.raises(InputError, match="Did you mean 'three'"):
        target_named(tree, "tree")
    with pytest.raises(InputError, match="has no function 'nothing'"):
        target_named(tree, "a:nothing")


def test_tests_that_touch_a_module_are_found_by_imports(make: Make) -> None:
    tree = make(
        {
            **PACKAGE,
            "tests/conftest.py": "import pytest\n",
            "tests/test_near.py": "from pkg.words import split\ndef test_it():\n    assert split('b')\n",
            "tests/test_far.py": "import pkg.rank\ndef test_it():\n    assert pkg.rank.rank('b')\n",
            "tests/test_apart.py": "from pkg.unused import nothing\ndef test_it(): ...\n",
            "tests/test_unit.py": "import unittest\nimport helping\nclass T(unittest.TestCase): ...\n",
            "tests/helping.py": "from pkg import words\n",
        }
    )
    found = related_tests(tree, tree.root / "pkg/words.py", "split")
    assert [(t.file.name, t.kind, t.distance, t.mentions) for t in found] == [
        ("test_near.py", "pytest", 1, True)
    ]
    far = related_tests(tree, tree.root / "pkg/words.py", "other")
    assert [t.file.name for t in far] == ["test_near.py"]
    (tree.root / "tests/test_near.py").unlink()
    far = related_tests(SourceTree(tree.root), tree.root / "pkg/words.py", "split")
    assert [(t.file.name, t.kind, t.distance, t.mentions) for t in far] == [
        ("test_far.py", "pytest", 2, False),
        ("test_unit.py", "unittest", 2, False),
    ]
