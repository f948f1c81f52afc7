"""Functions whose source may improve: which source runs where."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import ratchet
from ratchet.bind import Binding, CodeRefused, bound, declarations, source_of
from ratchet.types import Code, InputError

BONUS = 100


@ratchet.evolve
def rank(query: str, by: int = 1) -> list[str]:
    """Sorted words."""
    return sorted(query.split())[::by]


SOURCE = source_of(rank)


@pytest.fixture
def evolved() -> Callable[..., Any]:
    return ratchet.evolve(rank.__wrapped__)  # type: ignore[attr-defined,no-any-return]


def binding(source: str, name: str = "rank", sandboxed: bool = True) -> Binding:
    return Binding(resources={name: Code(source, name)}, sandboxed=sandboxed)


def test_the_source_is_kept_without_its_decorators() -> None:
    assert SOURCE.source.startswith("def rank(")
    assert "ratchet.evolve" not in SOURCE.source
    assert rank.__name__ == "rank"
    assert rank.__doc__ == "Sorted words."


def test_it_is_declared_with_its_place(evolved: Callable[..., Any]) -> None:
    declared = declarations()["rank"]
    assert (declared.resource, declared.qualname, declared.file) == (SOURCE, "rank", __file__)


def test_outside_of_rollouts_the_source_runs(evolved: Callable[..., Any]) -> None:
    assert evolved("b a", by=1) == ["a", "b"]


@pytest.mark.parametrize("sandboxed", [True, False])
def test_a_candidate_with_the_same_code_runs_everywhere(
    evolved: Callable[..., Any], sandboxed: bool
) -> None:
    with bound(Binding(resources={"rank": SOURCE}, sandboxed=sandboxed)):
        assert evolved("b a") == ["a", "b"]


def test_other_code_is_refused_outside_of_a_sandbox(evolved: Callable[..., Any]) -> None:
    with (
        bound(binding("def rank(query): return 1", sandboxed=False)),
        pytest.raises(CodeRefused, match=r"'rank' differs .* not a sandbox"),
    ):
        evolved("b a")


def test_in_a_sandbox_other_code_runs_and_sees_what_the_original_saw(
    evolved: Callable[..., Any],
) -> None:
    with bound(binding("def rank(query, by=2):\n    return BONUS + by + len(query)\n")):
        assert evolved("abc") == 105
    assert evolved("b a") == ["a", "b"]


def test_released_code_that_is_not_the_sources_warns_and_runs_the_sources(
    evolved: Callable[..., Any], release: Callable[..., None]
) -> None:
    release(rank=Code("def rank(query): return 1", "rank"))
    with pytest.warns(RuntimeWarning, match="'rank' differs from the source") as caught:
        assert evolved("b a") == ["a", "b"]
    assert caught[0].filename == __file__
    release(rank=SOURCE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert evolved("b a") == ["a", "b"]


def test_async_functions_stay_async() -> None:
    @ratchet.evolve("fetch")
    async def fetch(x: int) -> int:
        await asyncio.sleep(0)
        return x

    async def main() -> tuple[int, int]:
        plain = await fetch(1)
        with bound(binding("async def fetch(x):\n    return x + 1\n", "fetch")):
            return plain, await fetch(1)

    assert asyncio.run(main()) == (1, 2)


def test_methods_evolve_with_their_self() -> None:
    class Ranker:
        base = 10

        @ratchet.evolve(name="method")
        def method(self, x: int) -> int:
            return self.base + x

    assert Ranker().method(1) == 11
    declared = declarations()["method"]
    assert declared.qualname
    assert declared.qualname.endswith("Ranker.method")
    with bound(binding("def method(self, x):\n    return self.base * x\n", "method")):
        assert Ranker().method(2) == 20


def test_recursion_goes_through_the_name(load: Callable[..., ModuleType]) -> None:
    module = load("import ratchet\n@ratchet.evolve\ndef down(n):\n    return n and down(n - 1)\n")
    assert module.down(3) == 0
    with bound(binding("def down(n):\n    return 7 if n == 0 else down(n - 1)\n", "down")):
        assert module.down(3) == 7


def test_lines_are_counted_as_python_counts_them(load: Callable[..., ModuleType]) -> None:
    module = load(
        'import ratchet\n@ratchet.evolve\ndef page():\n    s = "a\x0cb\u2028c"\n    return s\n'
    )
    code = declarations()["page"].resource
    assert isinstance(code, Code)
    assert code.source.endswith("return s\n")
    assert module.page() == "a\x0cb\u2028c"


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(InputError, match="marks functions"):
        ratchet.evolve(3)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="marks functions"):
        ratchet.evolve(staticmethod(len))


def test_a_function_without_a_file_works_and_says_so_when_asked_for_its_source() -> None:
    space: dict[str, Any] = {"ratchet": ratchet}
    exec("@ratchet.evolve\ndef typed_in(): return 1", space)
    assert space["typed_in"]() == 1
    with pytest.raises(InputError, match="source of 'typed_in' cannot be read"):
        declarations()


def test_two_functions_of_one_name_are_refused() -> None:
    class A:
        @ratchet.evolve
        def same(self) -> None: ...

    with pytest.raises(InputError, match=r"function .*A\.same"):

        class B:
            @ratchet.evolve
            def same(self) -> None: ...
