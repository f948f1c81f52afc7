"""The comments EVOLVE-BLOCK-START and -END: what they mark, and what of it may change."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ratchet
from ratchet.bind import Binding, bound, declarations
from ratchet.bind.evolve_blocks import blocks, marked_functions, outside
from ratchet.bind.marked_functions import bind_marked_functions
from ratchet.types import Code, InputError

MODULE = '''
import functools

def keep(f):
    @functools.wraps(f)
    def kept(*args, **kwargs):
        return "kept", f(*args, **kwargs)
    return kept

# EVOLVE-BLOCK-START
def rank(words, by=1):
    """Ranks."""
    return sorted(words)[::by]

@keep
def wrapped(x):
    return x

class Picker:
    def __init__(self, base):
        self.base = base

    def pick(self, x):
        return self.base + x

async def fetch(x):
    return x

def stream(n):
    yield n
# EVOLVE-BLOCK-END

def score(x):
    total = 0
    # EVOLVE-BLOCK-START
    total += x
    # EVOLVE-BLOCK-END
    return total

def fixed(x):
    return x

TOOLS = [rank, score]
'''


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import a module of that source, and adopt what it marks."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(source: str, name: str = "marked_module") -> ModuleType:
        (tmp_path / f"{name}.py").write_text(source)
        module = importlib.import_module(name)
        bind_marked_functions(tmp_path)
        return module

    return make


def inside(name: str, source: str) -> Any:
    function = source.partition("def ")[2].partition("(")[0]
    return bound(Binding(resources={name: Code(source, function)}, sandboxed=True))


def test_what_lies_in_a_block_or_holds_one_is_a_target(
    imported: Callable[[str], ModuleType],
) -> None:
    imported(MODULE)
    assert sorted(declarations()) == [
        "Picker.__init__",
        "Picker.pick",
        "fetch",
        "rank",
        "score",
        "stream",
        "wrapped",
    ]
    rank = declarations()["rank"]
    assert isinstance(rank.resource, Code)
    assert rank.resource.source.startswith("def rank(words, by=1):")
    assert (rank.qualname, Path(str(rank.file)).name) == ("rank", "marked_module.py")


def test_a_candidate_reaches_who_held_the_function_before(
    imported: Callable[[str], ModuleType],
) -> None:
    module = imported(MODULE)
    held = module.TOOLS[0]
    assert held(["b", "a"]) == ["a", "b"]
    assert held.__doc__ == "Ranks."
    with inside("rank", "def rank(words, by=1):\n    return len(words) * by\n"):
        assert (held(["b", "a"]), module.rank(["b"], by=3)) == (2, 3)
    assert held(["b", "a"]) == ["a", "b"]


def test_methods_coroutines_generators_and_decorated_functions_evolve(
    imported: Callable[[str], ModuleType],
) -> None:
    module = imported(MODULE)
    with inside("Picker.pick", "def pick(self, x):\n    return self.base * x\n"):
        assert module.Picker(3).pick(4) == 12
    with inside("fetch", "async def fetch(x):\n    return x + 1\n"):
        assert asyncio.run(module.fetch(1)) == 2
    with inside("stream", "def stream(n):\n    yield n\n    yield n\n"):
        assert list(module.stream(1)) == [1, 1]
    with inside("wrapped", "def wrapped(x):\n    return -x\n"):
        assert module.wrapped(1) == ("kept", -1)


def test_adopting_twice_changes_nothing(
    imported: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    module = imported(MODULE)
    before = module.rank.__code__
    assert len(bind_marked_functions(tmp_path)) == 7
    assert module.rank.__code__ is before
    assert module.rank(["b", "a"]) == ["a", "b"]


def test_super_in_a_marked_method_works(imported: Callable[[str], ModuleType]) -> None:
    module = imported(
        "class A:\n    def f(self):\n        return 1\n"
        "# EVOLVE-BLOCK-START\nclass B(A):\n    def f(self):\n        return super().f() + 1\n"
        "# EVOLVE-BLOCK-END\n"
    )
    assert module.B().f() == 2
    with inside("B.f", "def f(self):\n    return super().f() + 10\n"):
        assert module.B().f() == 11


def test_a_decorated_function_that_holds_a_block_is_one_target(
    imported: Callable[[str], ModuleType],
) -> None:
    module = imported(
        "import ratchet\n@ratchet.evolve(name='mine')\ndef rank(x):\n"
        "    # EVOLVE-BLOCK-START\n    x += 1\n    # EVOLVE-BLOCK-END\n    return x\n"
    )
    assert list(declarations()) == ["mine"]
    assert module.rank(1) == 2


def test_a_marked_tool_is_described_by_its_candidate(
    imported: Callable[[str], ModuleType],
) -> None:
    module = imported(MODULE)
    with inside(
        "rank", 'def rank(words, by=1):\n    """Ranks well."""\n    return sorted(words)[::by]\n'
    ):
        assert ratchet.tool_schema(module.TOOLS[0])["description"] == "Ranks well."


def test_only_what_is_outside_of_blocks_is_fixed() -> None:
    block = "    # EVOLVE-BLOCK-START\n    a += x\n    # EVOLVE-BLOCK-END\n"
    source = f"def f(x):\n    a = 1\n{block}    return a\n"
    assert outside(source) == outside(source.replace("a += x", "a *= x\n    a -= 1"))
    assert outside(source) != outside(source.replace("return a", "return 1"))
    assert outside("def f(): return 1\n") is None


def test_strings_that_speak_of_markers_mark_nothing() -> None:
    assert blocks("x = '# EVOLVE-BLOCK-START'\n") == []
    assert marked_functions("def f():\n    return '''\n# EVOLVE-BLOCK-START\n'''\n") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# EVOLVE-BLOCK-START\nx = 1\n", "line 1: a block begins but never ends"),
        ("x = 1\n# EVOLVE-BLOCK-END\n", "line 2: a block ends, but none has begun"),
        (
            "# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-START\n",
            "line 2: a block begins inside that of line 1",
        ),
    ],
)
def test_markers_without_partners_are_named(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        blocks(text)
