"""Functions of every kind evolve: where their candidates run, and what these see."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import ratchet
from ratchet.bind import Binding, CodeRefused, bound, declarations
from ratchet.bind.compiling import WrongReturn
from ratchet.types import Code, InputError


def inside(check_returns: bool = False, **sources: str) -> Any:
    """A sandbox's binding of these functions."""
    resources = {
        name: Code(source, source.partition("def ")[2].partition("(")[0])
        for name, source in sources.items()
    }
    return bound(Binding(resources=resources, sandboxed=True, check_returns=check_returns))


CLASSES = """
import ratchet

class Base:
    def weigh(self, x):
        return x

class Ranker(Base):
    __bonus = 5

    @ratchet.evolve(name="weigh")
    def weigh(self, x):
        return super().weigh(x) + self.__bonus

    @ratchet.evolve(name="plain")
    def plain(self, x):
        return x

    @ratchet.evolve(name="fixed")
    @staticmethod
    def fixed(x):
        return x

    @staticmethod
    @ratchet.evolve(name="below")
    def below(x):
        return x

    @ratchet.evolve(name="make")
    @classmethod
    def make(cls, x=1):
        return cls, x
"""


def test_a_methods_candidate_has_super_and_private_names(load: Callable[..., ModuleType]) -> None:
    ranker = load(CLASSES).Ranker
    assert ranker().weigh(1) == 6
    source = "def weigh(self, x):\n    return super().weigh(x) * 100 + self.__bonus\n"
    with inside(weigh=source):
        assert ranker().weigh(1) == 105


def test_a_candidate_may_say_super_where_the_source_does_not(
    load: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load(CLASSES)
    monkeypatch.setitem(__import__("sys").modules, module.Ranker.__module__, module)
    with inside(plain="def plain(self, x):\n    return super().weigh(x) + 1\n"):
        assert module.Ranker().plain(1) == 2


@pytest.mark.parametrize("name", ["fixed", "below"])
def test_static_methods_evolve_on_either_side_of_their_decorator(
    name: str, load: Callable[..., ModuleType]
) -> None:
    ranker = load(CLASSES).Ranker
    with inside(**{name: f"def {name}(x):\n    return x + 1\n"}):
        assert getattr(ranker, name)(1) == getattr(ranker(), name)(1) == 2


def test_variables_of_enclosing_functions_stay_the_originals() -> None:
    count = 0

    @ratchet.evolve(name="step")
    def step() -> int:
        nonlocal count
        count += 1
        return count

    with inside(step="def step():\n    nonlocal count\n    count += 10\n    return count\n"):
        assert step() == 10
    assert count == 10


def test_generators_evolve_and_are_generators() -> None:
    @ratchet.evolve(name="count")
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    @ratchet.evolve(name="later")
    async def later(n: int) -> AsyncIterator[int]:
        for i in range(n):
            yield i

    async def collect() -> list[int]:
        return [i async for i in later(2)]

    assert inspect.isgeneratorfunction(count)
    assert inspect.isasyncgenfunction(later)
    assert (list(count(2)), asyncio.run(collect())) == ([0, 1], [0, 1])
    more = "def count(n):\n    got = yield n\n    yield got\n"
    with inside(count=more, later="async def later(n):\n    yield n\n"):
        running = count(7)
        assert (next(running), running.send("sent")) == (7, "sent")
        assert asyncio.run(collect()) == [2]


def test_another_docstring_alone_needs_no_sandbox() -> None:
    @ratchet.evolve(name="find")
    def find(query: str) -> str:
        """Find."""
        return query

    described = Code('def find(query: str) -> str:\n    """Find it."""\n    return query\n', "find")
    with bound(Binding(resources={"find": described})):
        assert find("x") == "x"
    other = Code("def find(query: str) -> str:\n    return query * 2\n", "find")
    with bound(Binding(resources={"find": other})), pytest.raises(CodeRefused):
        find("x")


def test_a_decorator_below_is_refused() -> None:
    @ratchet.trace
    def step() -> None: ...

    with pytest.raises(InputError, match=r"already decorated.*below the other decorators"):
        ratchet.evolve(step)


def test_returns_are_compared_with_the_sources_annotation() -> None:
    @ratchet.evolve(name="words")
    def words(text: str) -> list[str]:
        return text.split()

    @ratchet.evolve(name="soon")
    async def soon() -> int:
        return 1

    with (
        inside(check_returns=True, words="def words(text):\n    return None\n"),
        pytest.raises(WrongReturn, match=r"words returned NoneType where .* list\[str\]"),
    ):
        words("a b")
    with inside(check_returns=True, words="def words(text):\n    return ['a']\n"):
        assert words("") == ["a"]
    with (
        inside(check_returns=True, soon="async def soon():\n    return 'x'\n"),
        pytest.raises(WrongReturn),
    ):
        asyncio.run(soon())
    with inside(words="def words(text):\n    return None\n"):
        assert words("a") is None  # type: ignore[comparison-overlap]


SEARCH = '''
import ratchet
from typing import Literal

@ratchet.evolve
def search(query: str, limit: int = 5, order: Literal["new", "old"] = "new") -> list[str]:
    """Search the catalogue.

    Only titles are searched.

    Args:
        query: What to look for.
        limit: How many at most.
    """
    return [query] * limit
'''


def test_a_tool_is_described_by_signature_and_docstring(load: Callable[..., ModuleType]) -> None:
    search = load(SEARCH).search
    assert ratchet.tool_schema(search) == {
        "name": "search",
        "description": "Search the catalogue.\n\nOnly titles are searched.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for."},
                "limit": {"type": "integer", "default": 5, "description": "How many at most."},
                "order": {"enum": ["new", "old"], "type": "string", "default": "new"},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    }


def test_a_candidates_description_reaches_the_model_outside_of_a_sandbox(
    load: Callable[..., ModuleType],
) -> None:
    search = load(SEARCH).search
    code = declarations()["search"].resource
    assert isinstance(code, Code)
    better = Code(code.source.replace("What to look for.", "Words of a title."), "search")
    with bound(Binding(resources={"search": better})):
        schema = ratchet.tool_schema(search, name="find")
        assert search("a", 1) == ["a"]
    assert schema["name"] == "find"
    assert schema["parameters"]["properties"]["query"]["description"] == "Words of a title."
    described = ratchet.tool_schema(search)["parameters"]["properties"]["query"]["description"]
    assert described == "What to look for."
