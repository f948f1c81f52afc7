"""The `llm` proposer: what it asks, and what it makes of answers of every kind."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest

from ratchet.learn.proposers import Draft, Example, LlmProposer, ProposalRequest, TriedChange
from ratchet.learn.proposers.llm import SHOWN, STEPS
from ratchet.llm import Message, Reply
from ratchet.types import Candidate, Code, PromptTemplate
from tests.learn.conftest import FakeRunner, MakeStore, make_lab

PROMPT = PromptTemplate("You work for {office}.\nAnswer briefly.")
CODE = Code("def rank(items):\n    return sorted(items)\n", "rank")
BASELINE = Candidate.of({"system": PROMPT, "rank": CODE})


class Scripted:
    """Answers in order, the last one again and again."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def credit(self, model: str, survived: bool) -> None:
        """Nothing to learn."""

    async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
        """Answer."""
        self.asked.append(messages[-1].content)
        text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return Reply(text=text, model="m", problem="" if text else "it refused")


def draft(
    make_store: MakeStore,
    *answers: str,
    target: str = "system",
    steps: int = 1,
    parent: Candidate = BASELINE,
    **more: Any,
) -> tuple[Draft, Scripted]:
    store = make_store()
    coach = Scripted(*answers)
    lab = make_lab(FakeRunner(store, lambda *_: 1.0), store, BASELINE)
    lab._coach = coach
    case = ProposalRequest(
        step="step",
        parent=parent,
        baseline=BASELINE,
        targets=(target,),
        seed=1,
        weights={name: float(count == steps) for name, count in STEPS.items()},
        **more,
    )
    (found,) = asyncio.run(LlmProposer().propose(case, lab))
    return found, coach


def fenced(text: str) -> str:
    return f"The answers are too long, so I say so.\n```\n{text}\n```"


def test_a_rewrite_becomes_a_draft_with_the_coachs_reason(make_store: MakeStore) -> None:
    found, coach = draft(make_store, fenced("You work for {office}.\nOne word."))
    assert found.resources == {"system": PromptTemplate("You work for {office}.\nOne word.")}
    assert "The answers are too long" in found.reason
    assert re.search(r"reflect_prompt\.md [0-9a-f]{8}", found.reason)
    assert found.operator == "reflect"
    assert len(found.replies) == len(coach.asked) == 1


def test_it_shows_the_current_text_examples_and_what_was_tried(make_store: MakeStore) -> None:
    example = Example(
        input={"q": "room?"},
        output="R1",
        expected="R2",
        value=0.25,
        feedback="R1 is taken.",
        trace="1. list_rooms\n   out: []",
        error="",
    )
    _, coach = draft(
        make_store,
        fenced("x {office}"),
        examples=(example,),
        tried=(
            TriedChange(
                reason="shorter answers", gain=-0.1, score=0.4, tasks=6, change="+ Be short."
            ),
        ),
    )
    text = coach.asked[0]
    for part in ("Answer briefly.", '{"q":"room?"}', "R2", "R1 is taken.", "list_rooms"):
        assert part in text
    assert "(score 0.25)" in text
    assert "shorter answers (It scored 0.40 on 6 tasks: 0.10 worse on average" in text
    assert "+ Be short." in text
    assert "At most 4000 characters" in text
    assert "Keep these placeholders exactly as they are: {office}." in text
    assert "<<" not in text.replace("<<<<<<<", "")


def test_several_steps_build_on_each_other(make_store: MakeStore) -> None:
    one = "You work for {office}.\nAnswer briefly.\nFirst rule."
    two = f"{one}\nSecond rule."
    found, coach = draft(make_store, fenced(one), fenced(two), steps=2)
    assert found.resources == {"system": PromptTemplate(two)}
    assert "First rule." in coach.asked[1]
    assert len(found.replies) == 2


def test_a_step_that_refuses_or_throws_all_away_is_passed_over(make_store: MakeStore) -> None:
    good = "You work for {office}.\nAnswer briefly.\nA rule."
    found, _ = draft(make_store, fenced(good), "", fenced("Etwas ganz anderes {office}"), steps=3,
                     examples=tuple(Example(input=number) for number in range(20)))  # fmt: skip
    assert found.resources == {"system": PromptTemplate(good)}
    assert len(found.replies) == 3


def test_each_step_shows_what_its_draft_showed_least_and_as_much_as_the_first(
    make_store: MakeStore,
) -> None:
    texts = [f"You work for {{office}}.\nAnswer briefly.\nRule {number}." for number in range(4)]
    examples = tuple(Example(input=f"task {number};") for number in range(11))
    _, coach = draft(make_store, *map(fenced, texts), steps=4, examples=examples, first=7)
    shown = [{number for number in range(11) if f"task {number};" in text} for text in coach.asked]
    assert shown[0] == set(range(7))
    assert shown[1] > {7, 8, 9, 10}
    assert [len(numbers) for numbers in shown] == [7, 8, 8, 8]
    times = [sum(number in numbers for numbers in shown) for number in range(11)]
    assert max(times) - min(times) <= 1


def test_a_draft_ends_when_its_text_and_its_examples_stay_the_same(make_store: MakeStore) -> None:
    examples = tuple(Example(input=number) for number in range(SHOWN))
    _, coach = draft(make_store, "", steps=4, examples=examples)
    assert len(coach.asked) == 1
    _, coach = draft(make_store, "", steps=2, examples=(*examples, Example(input="another")))
    assert len(set(coach.asked)) == 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("", "gave no answer: it refused"),
        ("I cannot help with that.", "another format"),
        (fenced("   "), "another format"),
        (fenced("You work for {office}.\nAnswer briefly."), "changed nothing"),
        (fenced("{office} " * 1000), "at most"),
        ("<<<<<<< SEARCH\nnowhere\n=======\nx\n>>>>>>> REPLACE", "are not found"),
    ],
)
def test_unusable_answers_say_why(make_store: MakeStore, answer: str, words: str) -> None:
    found, _ = draft(make_store, answer)
    assert not found.resources
    assert words in found.problem
    assert len(found.replies) == 1


def test_a_prompt_cannot_grow_without_bound(make_store: MakeStore) -> None:
    parent, refused = BASELINE, False
    for _ in range(12):
        text = str(parent.resources["system"])
        found, _ = draft(make_store, fenced(text + "\n" + "More words. " * 60), parent=parent)
        refused = bool(found.problem)
        if refused:
            break
        parent = parent.derive(found.resources, algorithm="test")
    assert refused
    assert len(str(parent.resources["system"])) <= 4000


def test_code_is_edited_by_blocks_or_rewritten(make_store: MakeStore) -> None:
    block = "<<<<<<< SEARCH\nreturn sorted(items)\n=======\nreturn list(items)\n>>>>>>> REPLACE"
    found, coach = draft(make_store, block, target="rank")
    assert found.resources == {"rank": Code("def rank(items):\n    return list(items)\n", "rank")}
    assert "```python" in coach.asked[0]
    whole = "Better.\n```python\ndef rank(items):\n    return items[::-1]\n```"
    found, _ = draft(make_store, whole, target="rank")
    assert "items[::-1]" in found.resources["rank"].source  # type: ignore[union-attr]


def test_two_candidates_are_combined(make_store: MakeStore) -> None:
    other = BASELINE.derive(
        {"system": PromptTemplate("You work for {office}.\nBe exact.")}, algorithm="test"
    )
    both = "You work for {office}.\nAnswer briefly.\nBe exact."
    found, coach = draft(make_store, fenced(both), inspiration=other)
    assert found.operator == "combine"
    assert "Be exact." in coach.asked[0]
    assert found.resources == {"system": PromptTemplate(both)}
