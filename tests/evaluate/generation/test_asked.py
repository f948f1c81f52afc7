"""Evaluators that a language model proposes; the model is a double that says what it is told to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ratchet.evaluate.generation import KnownOutput, ProposedEvaluator, propose_by_llm
from ratchet.llm import Message, Reply

EXAMPLES = [
    *(KnownOutput(input=n, output=f"good {n}", good=True) for n in range(30)),
    *(KnownOutput(input=n, output=f"bad {n}", good=False) for n in range(3)),
]


class Model:
    """Answers once."""

    def __init__(self, *items: dict[str, Any], problem: str = "") -> None:
        self.reply = Reply(
            text="", data={"evaluators": [*items]} if items else None, problem=problem, model="m"
        )
        self.asked: list[Message] = []

    async def ask(self, messages: Any, **_: Any) -> Reply:
        self.asked = [*messages]
        return self.reply

    def credit(self, model: str, survived: bool) -> None: ...


def item(name: str, code: str = "", *criteria: str) -> dict[str, Any]:
    return {"name": name, "why": "It  says so.", "code": code, "criteria": [*criteria]}


def proposed(model: Model, count: int = 6) -> tuple[list[ProposedEvaluator], list[str]]:
    return asyncio.run(propose_by_llm(model, EXAMPLES, agent="def answer(): ...", count=count))


def test_code_and_rubrics_are_read_and_named_as_identifiers() -> None:
    code = "def Cites-it(output):\n    return True"
    found, refused = proposed(
        Model(item("Cites-it", code), item("tone", "", "Is it polite?", " ")), count=2
    )
    assert refused == []
    assert [one.name for one in found] == ["cites_it", "tone"]
    assert "def cites_it(output)" in found[0].source
    assert found[0].made_by == "llm m"
    assert found[0].why == "It says so."
    assert (found[1].use, found[1].options) == ("judge", {"criteria": ["Is it polite?"]})


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (item("f", "def f(output:"), "does not parse"),
        (item("f", "def g(output): return 1"), "defines no function of that name"),
        (item("f", "def f(output, spans): return 1"), "asks for 'spans'"),
        (item("f", "def f(expected): return 1"), "has no parameter output"),
        (item("f", "def f(*output): return 1"), "must name its parameters"),
        (item("f"), "neither code nor criteria"),
        (item("1 2", "x = 1"), "which is no name"),
        (item("class", "x = 1"), "which is no name"),
    ],
)
def test_a_proposal_that_cannot_be_tried_is_named_and_the_others_stay(
    bad: dict[str, Any], words: str
) -> None:
    found, refused = proposed(Model(bad, item("fine", "def fine(output): return 1")))
    assert [one.name for one in found] == ["fine"]
    assert len(refused) == 1
    assert words in refused[0]


def test_the_model_sees_good_and_bad_examples_and_the_agent_and_no_more_than_fits() -> None:
    model = Model(item("f", "def f(output): return 1"))
    proposed(model)
    told = model.asked[1].content
    assert "def answer(): ..." in told
    assert told.count("(good)") == 9
    assert told.count("(bad)") == 3
    long = [KnownOutput(input="x" * 9_000, output="y", good=True)]
    asyncio.run(propose_by_llm(model, long, agent="z" * 90_000))
    assert len(model.asked[1].content) < 16_000
    assert "7500 more characters" in model.asked[1].content


def test_near_misses_the_types_of_outputs_and_the_evaluators_there_are_are_shown() -> None:
    near = [
        KnownOutput(input=n, output=f'{{"queue": {n}}}', expected="{}", score=0.75)
        for n in range(40)
    ]
    model = Model(item("f", "def f(output): return 1"))
    there = ["json_match: answers"]
    asyncio.run(propose_by_llm(model, [*EXAMPLES, *near], agent="", existing=there))
    request = model.asked[1].content
    assert request.count("(a near miss: wrong in a part, score 0.75)") == 4
    assert request.count("(bad)") == 2
    assert request.count("(good)") == 6
    assert "What `output` is: str that holds JSON (40 of 73), str (33 of 73)." in request
    assert "not to repeat:\njson_match: answers\n" in request
