"""Verdicts on candidates: two stages, each found once and kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ratchet.learn import Budget
from ratchet.types import Candidate, Code, PromptTemplate
from tests.learn.conftest import FakeRunner, MakeStore, make_lab

SOURCE = Candidate.of({"f": Code("def f(x):\n    return x\n", "f"), "p": PromptTemplate("Say.")})
OTHER = SOURCE.derive({"f": Code("def f(x):\n    return 1\n", "f")}, algorithm="test")
WORDED = SOURCE.derive({"p": PromptTemplate("Tell.")}, algorithm="test")


def judge(said: str, asked: list[str]) -> Callable[[Candidate], Awaitable[str]]:
    """Says that of everyone."""

    async def say(candidate: Candidate) -> str:
        asked.append(candidate.id)
        return said

    return say


def test_the_stages_are_asked_and_kept_one_by_one(make_store: MakeStore) -> None:
    store, checked, tested = make_store(), list[str](), list[str]()
    runner = FakeRunner(store, lambda resources, given: 1.0)

    def lab(test_says: str = "a test fails") -> object:
        checks, tests = judge("", checked), judge(test_says, tested)
        return make_lab(runner, store, SOURCE, budget=Budget(), checks=checks, tests=tests)

    async def ask(one: object) -> list[str]:
        return [await one.check(OTHER), await one.test(OTHER)]  # type: ignore[attr-defined]

    assert asyncio.run(ask(lab())) == ["", "a test fails"]
    # Resumed: nobody is asked again, whatever would be said now. Nor by a part of the lab.
    assert asyncio.run(ask(lab("fine"))) == ["", "a test fails"]
    assert asyncio.run(ask(lab("fine").part("1"))) == ["", "a test fails"]  # type: ignore[attr-defined]
    assert checked == tested == [OTHER.id]
    kept = dict(store.journal.read("run0"))
    assert kept == {f"check/{OTHER.id}": "", f"test/{OTHER.id}": "a test fails"}
    # Who was refused can be looked at though it never ran.
    assert store.candidates.get(OTHER.id) == OTHER


def test_tests_are_for_code_that_is_not_the_sources(make_store: MakeStore) -> None:
    store = make_store()
    runner = FakeRunner(store, lambda resources, given: 1.0)
    without = make_lab(runner, store, SOURCE)
    lab = make_lab(runner, store, SOURCE, tests=judge("", []))
    assert not without.needs_test(OTHER)
    assert lab.needs_test(OTHER)
    assert not lab.needs_test(WORDED)
    # A part that begins with what has passed them tests no prompt that is written beside it.
    beside = OTHER.derive({"p": PromptTemplate("Tell.")}, algorithm="test")
    assert lab.needs_test(beside)
    assert not lab.part("2", baseline=OTHER).needs_test(beside)


def test_a_check_that_could_not_be_made_is_made_again(make_store: MakeStore) -> None:
    store, tries = make_store(), list[str]()

    async def breaks(candidate: Candidate) -> str:
        tries.append(candidate.id)
        if len(tries) == 1:
            raise OSError("no space left")
        return ""

    runner = FakeRunner(store, lambda resources, given: 1.0)
    lab = make_lab(runner, store, SOURCE, tests=breaks)

    async def main() -> str:
        try:
            await lab.test(OTHER)
        except OSError:
            return await lab.test(OTHER)
        raise AssertionError

    assert asyncio.run(main()) == ""
    assert len(tries) == 2
