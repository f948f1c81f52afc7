"""Functions whose source may improve: which source runs where."""

from __future__ import annotations

import warnings
from collections.abc import Callable
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
