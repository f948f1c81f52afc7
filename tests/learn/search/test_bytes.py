"""Prompts with fences, tags, template syntax and great length pass the search to the byte."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ratchet.learn.apo import APO
from ratchet.learn.evolve import Evolve
from ratchet.learn.gepa import with_text
from ratchet.learn.search.answers import parts_of
from ratchet.learn.search.request import fence_for
from ratchet.types import PromptTemplate
from tests.learn.conftest import MakeStore
from tests.learn.search.test_requests import KINDS, Seat, search

RULES = " ".join(f"{kind} goes to {team}." for kind, team in KINDS.items())

PIECES = {
    "code fences": 'Like this:\n```json\n{{"team": "…"}}\n```\nand\n~~~\nplain\n~~~\n',
    "long fences": "````text\ninner\n````\n`````\ndeeper\n`````\n",
    "tags": '<prompt>\n  <rule id="1">be brief &amp; kind</rule>\n</prompt>\n',
    "template syntax": "{{% if x %}} {{{{ name }}}} {{% endif %}} ${{amount}} %(s)s $HOME {{0}}\n",
    "conversation": "Here is the prompt:\nSure! NO CHANGE.\n# Answer\n<<<<<<< SEARCH\n=======\n",
    "twenty kilobytes": "One rule after the other, each of them short.\n" * 450,
    "line ends": "one\r\ntwo  \n\n\n\tthree \n",
}


def coach_of(prompt: str) -> Seat:
    """A coach that gives this prompt in the fence that it is asked for."""

    def answer(request: str) -> str:
        fence = re.findall(r"between two lines of (`+)", request)[-1]
        while fence in prompt:
            fence += "`"
        return f"A rule was missing there.\n{fence}text\n{prompt}\n{fence}"

    return Seat(answer)


@pytest.mark.parametrize("algorithm", [APO, Evolve])
@pytest.mark.parametrize("kind", PIECES)
def test_a_rewrite_is_shipped_as_the_coach_wrote_it(
    make_store: MakeStore, algorithm: Any, kind: str
) -> None:
    source = PromptTemplate(f"{PIECES[kind]}Sort under {{rules}}: {{ticket}}")
    rewrite = f"{PIECES[kind]}{RULES}\nSort under {{rules}}: {{ticket}}\n"
    coach = coach_of(rewrite)
    found = search(make_store(), coach, algorithm(), source=source)
    best = found.finding.best.resources["system"]
    assert isinstance(best, PromptTemplate)
    assert best.text == rewrite
    assert source.text in coach.requests[0]


TEXTS = some.lists(
    some.sampled_from([*PIECES.values(), "plain words. ", "\n", "`", "```", "````\n", "{{", "}}"]),
    min_size=1, max_size=8,
).map("".join)  # fmt: skip


@given(TEXTS, some.sampled_from(["", "Some words before.\n"]))
def test_what_stands_between_the_fences_is_taken_to_the_byte(text: str, before: str) -> None:
    fence = fence_for(text)
    parts = parts_of(f"{before}{fence}text\n{text}\n{fence}", fence)
    assert parts.text == text


@pytest.mark.parametrize("text", PIECES.values())
def test_texts_of_libraries_stay_as_they_are(text: str) -> None:
    template = PromptTemplate(f"{text}{{question}}")
    changed = f"{text}{RULES}{{question}}"
    assert with_text(template, changed) == PromptTemplate(changed)


@pytest.mark.parametrize(
    "answer",
    [
        "````text\nYou are\n",
        "````\none\n````\n````\ntwo\n````",
        "no fence at all",
        "```\na\n```\n```",
    ],
)
def test_fences_that_do_not_balance_hold_no_prompt(answer: str) -> None:
    parts = parts_of(answer, "````")
    assert parts.text is None
    assert parts.problem


@pytest.mark.parametrize(
    ("prose", "said"),
    [
        ("New Prompt:", ""),
        ("Here is the new prompt:\n\nI ask for one number.", "I ask for one number."),
        ("I state the exact bound of the fee.", "I state the exact bound of the fee."),
    ],
)
def test_a_heading_above_the_prompt_is_not_what_the_coach_says_of_it(prose: str, said: str) -> None:
    assert parts_of(f"{prose}\n````text\nAnswer briefly.\n````", "````").said == said
