"""Code keeps its signature, its kind and its fixed lines; prompts keep what fills them."""

from __future__ import annotations

import asyncio

import pytest

from ratchet.learn.checks import Checks, imports_what_is_there, installed, keeps_prompt, keeps_shape
from ratchet.learn.checks.check import CandidateChange
from ratchet.types import Candidate, PromptTemplate, Resource

from .conftest import change, code, prompt

RANK = "def rank(query: str, docs: list[str], *, k: int = 3) -> list[str]:\n    return docs[:k]\n"


def fault(old: str, new: str) -> str:
    return asyncio.run(keeps_shape(change(code(old), code(new), "rank")))


def test_another_default_and_quotes_around_an_annotation_are_fine() -> None:
    assert fault(RANK, RANK.replace("k: int = 3", 'k: "int" = 5')) == ""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("query: str, ", "", "changes its parameters to docs, k"),
        ("query: str, docs: list[str]", "docs: list[str], query: str", "changes its parameters"),
        ("*, k", "k", "makes the parameter 'k' positional where it is keyword only"),
        ("int = 3", "int", "takes the default away from the parameter 'k'"),
        ("query: str,", "query: str = '',", "Keep `def rank"),
        ("query: str", "query: bytes", "changes the annotation of 'query'"),
        (" -> list[str]", "", "changes the return annotation"),
        ("def rank", "async def rank", "must not be async"),
        ("return docs[:k]", "yield docs[:k]", "must not yield"),
    ],
)
def test_another_signature_is_named(old: str, new: str, said: str) -> None:
    changed = RANK.replace(old, new)
    if "query: str = ''" in changed:
        changed = changed.replace("docs: list[str]", "docs: list[str] = []")
    assert said in fault(RANK, changed)


def test_what_functions_inside_yield_is_their_own() -> None:
    inner = "    def each():\n        yield 1\n    return docs[:k]\n"
    assert fault(RANK, RANK.replace("    return docs[:k]\n", inner)) == ""


BLOCK = """def f(x):
    a = 1
    # EVOLVE-BLOCK-START
    a += x
    # EVOLVE-BLOCK-END
    return a
"""


@pytest.mark.parametrize(
    ("new", "fine"),
    [
        (BLOCK.replace("a += x", "for i in range(x):\n        a += i"), True),
        (BLOCK.replace("return a", "return a + 1"), False),
        (BLOCK.replace("    # EVOLVE-BLOCK-END\n", ""), False),
        ("def f(x):\n    a = 1\n    a += 2 * x\n    return a\n", False),
        (
            BLOCK.replace("a += x", 's = """').replace("return a", '""" and None\n    return a'),
            False,
        ),
    ],
)
def test_only_the_block_may_change(new: str, fine: bool) -> None:
    said = fault(BLOCK, new)
    assert (said == "") is fine
    if not fine:
        assert "'rank'" in said
        assert "BLOCK" in said or "block" in said


def imports(old: str, new: str, module: str = "") -> str:
    check = imports_what_is_there(lambda name: module, installed)
    return asyncio.run(check(change(code(old), code(new), "f")))


F = "def f(x):\n    return x\n"


def test_imports_of_what_is_absent_are_named() -> None:
    said = imports(F, "def f(x):\n    import numpee.linalg\n    return x\n")
    assert said == (
        "The code of 'f' imports numpee.linalg, which is not installed where the agent runs."
    )


@pytest.mark.parametrize(
    "line",
    ["import socket", "from subprocess import run", "import urllib.request", "import ctypes.util",
     "from urllib import request", "from multiprocessing.pool import Pool"],
)  # fmt: skip
def test_imports_that_a_sandbox_refuses_are_said_early(line: str) -> None:
    assert "may not use the network" in imports(F, f"def f(x):\n    {line}\n    return x\n")


def judged(old: PromptTemplate, new: PromptTemplate) -> str:
    return asyncio.run(keeps_prompt()(change(old, new, "system")))


SYSTEM = prompt("Book a room. {policy}")


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (prompt(" \n"), "is empty"),
        (prompt("Book a room."), "drops the placeholder {policy}"),
        (prompt("{policy} {tone}"), "a placeholder {tone} that nothing fills. Double braces"),
        (prompt("{policy}" + "x" * 4001), "has 4009 characters; at most 4000"),
        (PromptTemplate("{{ policy }}", "jinja2"), "is written for jinja2"),
    ],
)
def test_a_prompt_that_cannot_be_used_is_named(new: PromptTemplate, said: str) -> None:
    assert said in judged(SYSTEM, new)


@pytest.mark.parametrize(
    "text",
    [
        "Book a room, {policy}",
        "  Book a\nroom {policy}!\n",
        "```text\nBook a room. {policy}\n```",
        "~~~~\nBook a room.\n\n{policy}\n~~~~",
    ],
)
def test_a_change_that_cannot_matter_is_no_candidate(text: str) -> None:
    assert "says the same as the source's" in judged(SYSTEM, prompt(text))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Costs 1.5 {policy}", "Costs 15 {policy}"),
        ("If x < 5, {policy}", "If x > 5, {policy}"),
        ('Answer "a" {policy}', "Answer 'a' {policy}"),
        ("Book a room. {policy}", "Book the room. {policy}"),
        ("book a room {policy}", "BOOK a room {policy}"),
        ('{{"a": 1}} {policy}', '{{"a": [1]}} {policy}'),
    ],
)
def test_a_change_that_may_matter_is_a_candidate(old: str, new: str) -> None:
    assert judged(prompt(old), prompt(new)) == ""


def test_the_length_is_held_against_the_baseline_however_many_rounds_follow() -> None:
    old = prompt("{policy}" + "x" * 3000)
    text, rounds = old, 0
    while text == old or judged(old, text) == "":
        text, rounds = prompt(text.text + text.text.replace("{policy}", "")), rounds + 1
        assert rounds < 10
    assert rounds == 3  # 2, 4, 8 times as long: 4 times is let through


def test_the_first_fault_is_told() -> None:
    asked: list[str] = []

    async def sees(change: CandidateChange) -> str:
        asked.append(",".join(change.resources))
        return "no" if "b" in change.resources else ""

    async def never(change: CandidateChange) -> str:
        raise AssertionError

    base: dict[str, Resource] = {"a": prompt("1"), "b": prompt("1")}
    checks = Checks(Candidate.of(base), [sees, never])
    candidate = Candidate.of({**base, "b": prompt("2")})
    assert asyncio.run(checks(candidate)) == "no"
    assert asked == ["b"]
