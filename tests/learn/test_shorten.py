"""Shorten: what no answer depends on goes, what one depends on stays, to the byte."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.learn import Budget, Finding
from ratchet.learn.shorten import Shorten
from ratchet.learn.shorten.parts import joined, split_prompt
from ratchet.llm import Message, Reply
from ratchet.store import Store
from ratchet.types import Candidate, InputError, PromptTemplate
from ratchet.types.template import Engine
from tests.learn.conftest import Answer, FakeRunner, Killed, MakeStore, make_lab

RULES = [f"Rule {name}: tickets about {name} go to team {name}." for name in "abcdefghijkl"]
DEAD = [f"We have been proud of our {name} since the very first day." for name in "mnopqrstuvwx"]


def prompt(*, seed: int = 0) -> str:
    """Rules and dead sentences in paragraphs, mixed."""
    lines = [*RULES, *DEAD]
    random.Random(seed).shuffle(lines)
    paragraphs = [" ".join(lines[at : at + 3]) for at in range(0, len(lines), 3)]
    return "You sort tickets. {ticket}\n\n" + "\n\n".join(paragraphs) + "\n"


SOURCE = Candidate.of({"system": PromptTemplate(prompt())})


def sorts(resources: Mapping[str, Any], task: Any) -> float:
    """A simulated agent: right where the rule that a ticket needs stands in the prompt."""
    return float(RULES[task["nr"] % len(RULES)] in resources["system"].text)


class Shortened(msgspec.Struct):
    finding: Finding
    runner: FakeRunner
    notes: list[str]

    @property
    def text(self) -> str:
        template = self.finding.best.resources["system"]
        assert isinstance(template, PromptTemplate)
        return template.text


def shorten(
    store: Store,
    *,
    answer: Answer = sorts,
    baseline: Candidate = SOURCE,
    rollouts: int | None = 1_000,
    **options: Any,
) -> Shortened:
    runner = FakeRunner(
        store, answer, order=options.pop("order", 0), dies_after=options.pop("dies_after", None)
    )
    notes: list[str] = []
    lab = make_lab(
        runner, store, baseline, budget=Budget(rollouts=rollouts), on_note=notes.append,
        val=options.pop("val", 24), **options,
    )  # fmt: skip
    return Shortened(asyncio.run(Shorten().learn(lab)), runner, notes)


def test_dead_text_goes_and_every_rule_stays(make_store: MakeStore) -> None:
    shortened = shorten(make_store())
    assert [rule for rule in RULES if rule not in shortened.text] == []
    assert [text for text in DEAD if text in shortened.text] == []
    assert shortened.text.startswith("{ticket}\n\n")
    assert shortened.finding.best_val == shortened.finding.baseline_val == 1.0
    assert shortened.runner.executed.total() <= 1_000
    assert "shorter: about" in shortened.finding.sentence
    assert "13 of 25 parts of 'system'" in shortened.finding.best.reason


def test_of_two_parts_that_say_the_same_one_stays(make_store: MakeStore) -> None:
    twice = [*RULES[:6], *(rule.replace("Rule", "Again") for rule in RULES[:6])]
    source = Candidate.of({"system": PromptTemplate("\n".join(f"- {line}" for line in twice))})

    def either(resources: Mapping[str, Any], task: Any) -> float:
        team = "abcdef"[task["nr"] % 6]
        return float(f" {team}: tickets about {team} go" in resources["system"].text)

    shortened = shorten(make_store(), answer=either, baseline=source)
    assert all(f" {team}: tickets" in shortened.text for team in "abcdef")
    assert shortened.text.count("\n") == 5


def test_where_answers_vary_rules_stay_and_dead_text_goes(make_store: MakeStore) -> None:
    def noisy(resources: Mapping[str, Any], task: Any) -> float:
        text = resources["system"].text
        luck = random.Random(f"{text}/{task['split']}/{task['nr']}").random()
        return float(luck < (0.9 if sorts(resources, task) else 0.1))

    shortened = shorten(make_store(), answer=noisy)
    assert [rule for rule in RULES if rule not in shortened.text] == []
    assert sum(text not in shortened.text for text in DEAD) >= 6


def test_parts_of_several_prompts_go_together(make_store: MakeStore) -> None:
    halves = [" ".join(RULES[:6] + DEAD[:6]), " ".join(RULES[6:] + DEAD[6:])]
    source = Candidate.of(
        {
            "first": PromptTemplate(halves[0]),
            "second": PromptTemplate(halves[1] + " {{x}}", "jinja2"),
        }
    )

    def reads_both(resources: Mapping[str, Any], task: Any) -> float:
        text = resources["first"].text + resources["second"].text
        return float(RULES[task["nr"] % len(RULES)] in text)

    finding = shorten(make_store(), answer=reads_both, baseline=source).finding
    texts = {name: str(resource) for name, resource in finding.best.resources.items()}
    assert texts == {"first": " ".join(RULES[:6]), "second": " ".join(RULES[6:]) + " {{x}}"}


def test_nothing_goes_where_every_part_is_needed(make_store: MakeStore) -> None:
    source = Candidate.of({"system": PromptTemplate("\n".join(RULES))})
    shortened = shorten(make_store(), baseline=source)
    assert shortened.finding.best == source
    assert "No part of a prompt can be left out" in shortened.finding.sentence


@pytest.mark.parametrize("rollouts", [32, 60, 150, 400])
def test_the_budget_holds_and_what_is_found_by_then_counts(
    make_store: MakeStore, rollouts: int
) -> None:
    shortened = shorten(make_store(), rollouts=rollouts)
    assert shortened.runner.executed.total() <= rollouts
    lost = shortened.finding.baseline_val - shortened.finding.best_val
    assert lost <= 0.1


def test_a_killed_search_goes_on_with_the_same_result(make_store: MakeStore) -> None:
    whole = shorten(make_store())
    store = make_store()
    with pytest.raises(Killed):
        shorten(store, dies_after=150, order=1)
    assert shorten(store, order=2).text == whole.text


# --- parts

TEXT = """You sort tickets, e.g. Billing ones. Dr. J. Doe wrote this, which is wrapped
here in the middle. Be brief.

# Rules

1. Money goes to billing. Always.
   That holds for {{"refunds": 1}}, too.
2. Use {ticket:%d. %B} as it is.

<examples>
<example>
Q: a

A: b. C d.
</example>
</examples>

Tone: friendly
Length: short
```json
{{"x": 1}}

{{"y": 2}}
```
| a | b |
|---|---|
| 1 | 2 |
"""


def test_a_prompt_is_split_where_its_sentences_items_and_blocks_end() -> None:
    parts = split_prompt(PromptTemplate(TEXT))
    assert [part.text for part in parts] == [
        "You sort tickets, e.g. Billing ones.",
        "Dr. J. Doe wrote this, which is wrapped\nhere in the middle.",
        "Be brief.",
        "# Rules",
        '1. Money goes to billing. Always.\n   That holds for {{"refunds": 1}}, too.',
        "2. Use {ticket:%d. %B} as it is.",
        "<examples>\n<example>\nQ: a\n\nA: b. C d.\n</example>\n</examples>",
        "Tone: friendly",
        "Length: short",
        '```json\n{{"x": 1}}\n\n{{"y": 2}}\n```',
        "| a | b |\n|---|---|\n| 1 | 2 |",
    ]
    assert [part.text for part in parts if part.fixed] == ["2. Use {ticket:%d. %B} as it is."]
    assert joined(parts, {2, 3}).startswith(f"{TEXT.partition(' Be brief')[0]}\n\n1. Money")


def test_blocks_stay_whole_and_an_element_around_the_prompt_does_not() -> None:
    text = "<prompt>\nBe kind. Be brief.\n\n{% if vip %}Say A. Say B.\n\nC.{% endif %}\n</prompt>"
    parts = split_prompt(PromptTemplate(text, "jinja2"))
    assert [(part.text, part.fixed) for part in parts] == [
        ("<prompt>", True),
        ("Be kind.", False),
        ("Be brief.", False),
        ("{% if vip %}Say A. Say B.\n\nC.{% endif %}", True),
        ("</prompt>", True),
    ]


PIECES = st.sampled_from(
    [
        *"aB.!? \n",
        "\n\n",
        "- ",
        "1. ",
        "# ",
        "```\n",
        "<a>\n",
        "</a>\n",
        "| x |\n",
        "{x}",
        "{{",
        "}}",
    ]
)


@given(st.lists(PIECES, max_size=60).map("".join), st.sampled_from(["f-string", "plain"]))
def test_the_parts_are_the_prompt_to_the_byte(text: str, engine: Engine) -> None:
    try:
        template = PromptTemplate(text, engine)
    except InputError:
        return
    parts = split_prompt(template)
    assert joined(parts) == text
    for number, part in enumerate(parts):
        if not part.fixed:
            PromptTemplate(joined(parts, {number}), engine)


# --- the coach, and what is saved


class Merges:
    """A stand-in coach that writes what it is told to."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[str] = []

    async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
        self.asked.append(messages[-1].content)
        return Reply(text=self.text, model="coach")

    def credit(self, *_: Any) -> None: ...

    async def close(self) -> None: ...


MERGED = "Sort. {ticket} " + " ".join(RULES)
LONG = "You, who sort tickets all day, sort this one: {ticket}\n\n" + "\n\n".join(RULES)


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (f"Shorter now.\n```\n{MERGED}\n```", ""),
        (f"```\n{MERGED.replace('{ticket} ', '')}\n```", "It lost the placeholder {ticket}"),
        (f"```\n{MERGED.replace(RULES[0], '')}\n```", "loses train tasks"),
        (f"```\n{LONG} {MERGED}\n```", "It is no shorter."),
        ("NO CHANGE: it says no more than it must.", ""),
    ],
)
def test_a_merged_version_counts_if_it_keeps_placeholders_and_scores(
    make_store: MakeStore, answer: str, note: str
) -> None:
    coach = Merges(answer)
    source = Candidate.of({"system": PromptTemplate(LONG)})
    shortened = shorten(make_store(), baseline=source, coach=coach)
    assert len(coach.asked) == 1
    assert "{ticket}" in coach.asked[0]
    assert (shortened.text == MERGED) == (answer.startswith("Shorter"))
    assert all(rule in shortened.text for rule in RULES)
    assert note in " ".join(shortened.notes)
