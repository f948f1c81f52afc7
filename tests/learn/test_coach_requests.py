"""What the coach is shown over whole searches: evidence of the prompt shown, and nothing twice."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ratchet.evaluate import FunctionEvaluator, Judgement
from ratchet.learn import Budget, Finding, Lab
from ratchet.learn.apo import APO
from ratchet.learn.evolve import Evolve
from ratchet.llm import Message, Reply
from ratchet.types import Candidate, Int, Params, PromptTemplate
from tests.learn.conftest import FakeRunner, MakeStore, make_lab

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))

RULES = 10
SOURCE = Candidate.of({"system": PromptTemplate("You answer {question}.")})

_SHOWN = re.compile(
    r"# Current (?:prompt|instructions)\n(?:\n[^\n]+\n\n)?(`{3,})\w*\n(.*?)\n\1", re.DOTALL
)


def mark(prompt: str) -> str:
    """A fingerprint of a prompt, as the agent and the critic of this test leave it behind."""
    return f"by-{hashlib.sha256(prompt.encode()).hexdigest()[:12]}"


def needed(given: Mapping[str, Any]) -> set[int]:
    """Rules that a task needs."""
    number = given["nr"] * 7 + (3 if given["split"] == "val" else 0)
    return {number % RULES, (number // 2) % RULES}


def agent(resources: Any, given: Any) -> dict[str, Any]:
    """Answers with its score, the rules that it missed, and the fingerprint of its prompt."""
    prompt = resources["system"].text
    missed = sorted(rule for rule in needed(given) if f"rule {rule}." not in prompt)
    value = 0.0 if "harm" in prompt else 1 - len(missed) / len(needed(given))
    return {"value": value, "missed": missed, "prompt": mark(prompt)}


def judge(output: dict[str, Any]) -> Judgement:
    """The score, with what was missed."""
    return Judgement(output["value"], f"missed: {output['missed']}")


class Critic:
    """A coach that states one or two rules which the rollouts miss, and often nothing of use.

    With `stubborn`, it says the same to whatever it is asked about the same prompt.
    """

    def __init__(self, seed: int, *, stubborn: bool = False) -> None:
        self.seed = seed
        self.stubborn = stubborn
        self.requests: list[str] = []

    def credit(self, model: str, survived: bool) -> None:
        """Nothing to learn."""

    async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
        """Answer as a model would."""
        text = "\n".join(f"{m.role}: {m.content}" for m in messages)
        self.requests.append(text)
        for _ in range(len(text) % 5):
            await asyncio.sleep(0)
        prompt = shown_in(text)
        luck = random.Random(f"{self.seed} {prompt if self.stubborn else text}")
        missed = sorted({int(n) for n in re.findall(r"\d+", " ".join(_MISSED.findall(text)))})
        missed = [rule for rule in missed if f"rule {rule}." not in prompt]
        if "Write a critique" in text:
            said = " ".join(f"Follow rule {rule}." for rule in missed[: luck.randrange(3)])
            return Reply(text=f"- Of {mark(prompt)}: {said}", model="m")
        draw = luck.random()
        if draw < 0.15:
            return Reply(text="NO CHANGE. It says all.", model="m")
        if draw < 0.3:
            return Reply(text="I cannot help.", model="m")
        advised = [int(n) for n in re.findall(r"Follow rule (\d+)", text)] + missed
        new = [f"Follow rule {rule}." for rule in advised if f"rule {rule}." not in prompt]
        line = luck.choice([*new[:2], "It may harm." if draw > 0.9 else "Be brief."])
        return Reply(text=f"A rule is missing.\n````text\n{prompt}\n{line}\n````", model="m")


_MISSED = re.compile(r"missed: (\[[\d, ]*\])")


def shown_in(request: str) -> str:
    """The prompt that a request asks about: the last one shown."""
    return _SHOWN.findall(request)[-1][1]


OF_OTHERS = ("Edits tried before", "What was tried before", "What was found out before")
"""Headings under which a request tells of other versions."""


def is_fresh(request: str) -> bool:
    """Whether the evidence in a request is of the prompt shown, or labelled with what changed."""
    prompt = shown_in(request)
    for section in re.split(r"\n# ", request):
        others = set(re.findall(r"by-[0-9a-f]{12}", section)) - {mark(prompt)}
        if not others or section.startswith(OF_OTHERS):
            continue
        label = "an earlier version" in section or "the version before these changes" in section
        if len(others) > 1 or not label or f"+ {prompt.splitlines()[-1]}" not in section:
            return False
    return True


def search(
    make_store: MakeStore, algorithm: Any, *, seed: int, slots: int, coach: Any, **options: Any
) -> tuple[Finding, Lab]:
    """One whole search."""
    store = make_store()
    runner = FakeRunner(store, options.pop("answer", agent), order=seed)
    runner.slots = slots  # type: ignore[attr-defined]
    lab = make_lab(
        runner, store, options.pop("baseline", SOURCE), seed=seed, coach=coach, val=12,
        budget=options.pop("budget", Budget(rollouts=220)),
        evaluator=FunctionEvaluator(judge, name="objective", trusted=True), **options,
    )  # fmt: skip
    return asyncio.run(algorithm.learn(lab)), lab


@pytest.mark.parametrize("algorithm", [APO, Evolve])
def test_evidence_is_of_the_prompt_shown_or_labelled_and_no_request_is_made_twice(
    make_store: MakeStore, algorithm: type[Any]
) -> None:
    requests: list[str] = []
    searches = list(itertools.product(range(3), (1, 8), (False, True)))
    # Without the long form, each number of slots with each kind of coach once.
    for seed, slots, stubborn in searches if LONG else [searches[n] for n in (0, 5, 6, 11)]:
        coach = Critic(seed, stubborn=stubborn)
        found, _ = search(make_store, algorithm(), seed=seed, slots=slots, coach=coach)
        assert found.best_val >= found.baseline_val
        repeated = len(coach.requests) - len(set(coach.requests))
        assert repeated == 0
        requests += coach.requests
    assert len(requests) > 100
    assert all("by-" in request for request in requests)
    assert sum(map(is_fresh, requests)) / len(requests) == 1.0
    assert any("earlier version" in r or "version before these changes" in r for r in requests)


@pytest.mark.parametrize("algorithm", [APO, Evolve])
def test_it_does_not_say_that_the_budget_is_spent_while_most_of_it_is_left(
    make_store: MakeStore, algorithm: type[Any]
) -> None:
    searches = list(itertools.product(range(4), (2, 8)))
    for seed, slots in searches if LONG else searches[1:5:2]:
        budget = Budget(rollouts=360, coach_calls=24)
        found, lab = search(
            make_store, algorithm(), seed=seed, slots=slots, coach=Critic(seed), budget=budget
        )
        if "coach calls" in found.sentence:
            assert lab.spent.coach_calls >= 22
        elif "budget is spent" in found.sentence:
            assert lab.spent.rollouts >= 300


class Declines(Critic):
    """Would change nothing, ever."""

    async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
        """Decline."""
        self.requests.append(messages[-1].content)
        return Reply(text="NO CHANGE. The tasks cannot be solved.", model="m")


@pytest.mark.parametrize("algorithm", [APO, Evolve])
def test_a_coach_that_would_change_nothing_is_believed(
    make_store: MakeStore, algorithm: type[Any]
) -> None:
    coach = Declines(0)
    found, lab = search(make_store, algorithm(), seed=0, slots=4, coach=coach)
    assert found.best == SOURCE
    assert found.ended == "idle"
    assert "the coach has no change left" in found.sentence
    assert "could not be" not in found.sentence
    assert len(coach.requests) <= 40
    assert not [key for key, _ in lab._store.journal.read("run0") if key.startswith("unusable")]


def test_parameters_are_shown_with_their_declared_range(make_store: MakeStore) -> None:
    baseline = Candidate.of({**SOURCE.resources, "search": Params({"k": Int(5, 1, 20)})})
    for algorithm in (APO(), Evolve()):
        coach = Critic(1)
        search(make_store, algorithm, seed=1, slots=4, coach=coach, baseline=baseline)
        assert "- search.k = 5 (allowed: 1 to 20)" in coach.requests[0]


def test_earlier_edits_are_told_with_their_lines_and_their_scores(make_store: MakeStore) -> None:
    for algorithm in (APO(), Evolve()):
        coach = Critic(0)
        search(make_store, algorithm, seed=0, slots=1, coach=coach)
        told = [request for request in coach.requests if "It scored" in request]
        assert any(
            re.search(r"In the current text: .*It scored \d\.\d\d on \d+ tasks", r) for r in told
        )
        assert any(re.search(r"\n      \+ Follow rule \d", request) for request in told)
