"""APO: it finds what a prompt lacks, spends what it may, and does the same again when resumed."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ratchet.learn import Budget, Finding, Proposal
from ratchet.learn.apo import APO
from ratchet.llm import CoachUnavailable, Reply
from ratchet.store import Store
from ratchet.types import (
    Candidate,
    InputError,
    Int,
    Params,
    PromptTemplate,
    Rollout,
    Span,
)
from tests.learn.apo.rules import RULES, SOURCE, RuleCoach, obey, prompt_in, stated
from tests.learn.conftest import Answer, FakeRunner, Killed, MakeStore, make_lab

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))

SEEDS = range(3 if LONG else 1)
"""Of searches in which chance decides what comes up."""


class Learned(msgspec.Struct):
    finding: Finding
    proposals: list[Proposal]
    runner: FakeRunner
    coach: Any
    spent: Any


def learn(
    store: Store,
    apo: APO | None = None,
    *,
    baseline: Candidate = SOURCE,
    answer: Answer = obey,
    rollouts: int | None = 250,
    seed: int = 0,
    order: int = 0,
    slots: int = 8,
    dies_after: int | None = None,
    cost_usd: float = 0.0,
    coach: Any = None,
    kind: type[FakeRunner] = FakeRunner,
    **options: Any,
) -> Learned:
    """One whole search, or a beginning of one that a kill ends."""
    proposals: list[Proposal] = []
    runner = kind(store, answer, order=order, dies_after=dies_after, cost_usd=cost_usd)
    runner.slots = slots  # type: ignore[attr-defined]
    coach = RuleCoach(seed=seed) if coach is None else coach
    lab = make_lab(
        runner,
        store,
        baseline,
        seed=seed,
        budget=options.pop("budget", Budget(rollouts=rollouts)),
        on_proposal=proposals.append,
        coach=coach or None,
        val=options.pop("val", 20),
        **options,
    )
    finding = asyncio.run((apo or APO()).learn(lab))
    return Learned(finding, proposals, runner, coach, lab.spent)


def text_of(finding: Finding, name: str = "system") -> str:
    template = finding.best.resources[name]
    assert isinstance(template, PromptTemplate)
    return template.text


def shown(learned: Learned) -> list[tuple[str, float, bool]]:
    return [(p.candidate_id, p.value, p.pruned) for p in learned.proposals]


def test_it_finds_the_rules_that_the_prompt_lacks(make_store: MakeStore) -> None:
    found = learn(make_store())
    assert found.finding.best_val > found.finding.baseline_val + 0.7
    assert stated(text_of(found.finding)) == set(range(RULES))
    assert found.finding.best.resources["system"].placeholders == {"question"}  # type: ignore[union-attr]
    assert found.finding.best.algorithm == "apo"
    assert any(p.accepted for p in found.proposals)
    assert any(survived for _, survived in found.coach.credits)


def test_held_out_tasks_are_never_shown_to_the_coach(make_store: MakeStore) -> None:
    found = learn(make_store())
    assert found.coach.texts
    assert all('"split":"val"' not in text for text in found.coach.texts)
    assert any('"split":"train"' in text for text in found.coach.texts)


@pytest.mark.parametrize("rollouts", [15, 16, 20, 33, 50, 90, 170])
def test_it_never_exceeds_its_budget(make_store: MakeStore, rollouts: int) -> None:
    found = learn(make_store(), rollouts=rollouts)
    assert found.spent.rollouts == found.runner.executed.total() <= rollouts


def test_without_a_coach_a_prompt_or_tasks_it_says_what_is_missing(make_store: MakeStore) -> None:
    with pytest.raises(CoachUnavailable, match=r"\[coach\]"):
        learn(make_store(), coach=False)
    numbers = Candidate.of({"k": Params({"k": Int(3, 1, 5)})})
    with pytest.raises(InputError, match=r"no prompt to improve.*ratchet\.prompt"):
        learn(make_store(), baseline=numbers)
    for split in ("train", "val"):
        with pytest.raises(InputError, match=f"There are no {split} tasks"):
            learn(make_store(), **{split: 0})


def test_an_evaluator_that_never_says_anything_is_an_error(make_store: MakeStore) -> None:
    with pytest.raises(InputError, match="No train task has a score"):
        learn(make_store(), answer=lambda *_: 7.0)


class Says(RuleCoach):
    """A coach whose edits come to no good."""

    def __init__(self, says: Callable[[str], str]) -> None:
        super().__init__()
        self.says = says

    def edit(self, text: str, luck: random.Random) -> str:
        return self.says(prompt_in(text))


def _rollouts(found: Learned) -> list[Rollout]:
    ids = list(found.runner.executed)
    return list(found.runner.store.rollouts.get(ids).values())


def test_a_prompt_that_doubles_each_round_stays_bounded(make_store: MakeStore) -> None:
    class Doubles(RuleCoach):
        def edit(self, text: str, luck: random.Random) -> str:
            rules = stated(prompt_in(text)) | stated(text.split("# Critiques", 1)[-1])
            said = " ".join(f"Follow rule {rule}." for rule in sorted(rules))
            filler = "Be careful with every single word. " * (len(prompt_in(text)) // 17)
            return f"```\nYou are an assistant. {said} {filler} {{question}}\n```"

    found = learn(make_store(), coach=Doubles(), rollouts=400)
    assert len(text_of(found.finding)) <= 24_000
    assert found.finding.best_val > found.finding.baseline_val


def test_the_same_seed_finds_the_same_when_nothing_overtakes(make_store: MakeStore) -> None:
    one, other = (learn(make_store(), slots=1, rollouts=100) for _ in range(2))
    assert one.finding == other.finding
    assert shown(one) == shown(other)


def test_a_search_that_is_killed_again_and_again_goes_on_as_it_began(
    make_store: MakeStore,
) -> None:
    """Whatever was decided before a kill stands after it."""
    store = make_store()
    asked: Counter[str] = Counter()
    told: list[tuple[str, float, bool]] = []
    for kill in range(60):
        coach = RuleCoach()
        proposals: list[Proposal] = []
        runner = FakeRunner(store, obey, order=kill, dies_after=11)
        runner.slots = 8  # type: ignore[attr-defined]
        lab = make_lab(
            runner, store, SOURCE, budget=Budget(rollouts=150), coach=coach,
            on_proposal=proposals.append,
        )  # fmt: skip
        try:
            asyncio.run(APO().learn(lab))
        except Killed:
            ended = False
        else:
            ended = True
        asked += coach.asked
        now = [(p.candidate_id, p.value, p.pruned) for p in proposals]
        assert now[: len(told)] == told
        told = now
        if ended:
            break
    assert ended
    assert asked.total() == lab.spent.coach_calls
    assert sum(store.rollouts.counts().values()) == lab.spent.rollouts <= 150


def test_a_resumed_search_under_dollars_decides_the_same(make_store: MakeStore) -> None:
    options: dict[str, Any] = {"cost_usd": 0.01, "rollouts": None}
    for dies_after in (20, 60, 90):
        store = make_store()
        coach = RuleCoach(cost_usd=0.005)
        with pytest.raises(Killed):
            learn(store, dies_after=dies_after, budget=Budget(dollars=1.5), coach=coach, **options)
        resumed = learn(
            store, order=4, budget=Budget(dollars=1.5), coach=RuleCoach(cost_usd=0.005), **options
        )
        again = learn(
            store, order=5, budget=Budget(dollars=1.5), coach=RuleCoach(cost_usd=0.005), **options
        )
        assert again.finding == resumed.finding
        assert not again.coach.asked


class Unreachable(RuleCoach):
    async def ask(self, *args: Any, **kwargs: Any) -> Reply:
        if self.asked.total() >= 3:
            raise CoachUnavailable("The coach does not answer any more.")
        return await super().ask(*args, **kwargs)


def test_a_coach_that_goes_away_ends_the_run_and_nothing_is_lost(make_store: MakeStore) -> None:
    store = make_store()
    first = Unreachable()
    with pytest.raises(CoachUnavailable):
        learn(store, coach=first)
    resumed = learn(store, order=1)
    assert first.asked.total() + resumed.coach.asked.total() == resumed.spent.coach_calls
    assert resumed.finding.best_val > resumed.finding.baseline_val


TWO = Candidate.of(
    {
        "plan": PromptTemplate("You plan the work of a team and write down steps. {question}"),
        "answer": PromptTemplate("You answer what people want to know, in short. {question}"),
        "other": PromptTemplate("You translate the user's words into French, nothing else. {text}"),
    }
)


class TracedRunner(FakeRunner):
    """Keeps a trace with each rollout: two model calls, of which the second one made the answer."""

    traces: dict[str, list[Span]] = {}

    def _ended(self, rollout: Rollout, resources: Any) -> Rollout:
        def call(number: int, name: str) -> Span:
            text = resources[name].text.replace("{question}", "Why?")
            message = {"role": "system", "parts": [{"type": "text", "content": text}]}
            return Span(
                trace_id=rollout.id,
                span_id=f"{number:016x}",
                parent_id="f" * 16,
                name="chat",
                start_ns=number,
                end_ns=number + 1,
                attributes={
                    "gen_ai.request.model": "m",
                    "gen_ai.input.messages": msgspec.json.encode([message]).decode(),
                },
            )

        self.traces[rollout.id] = [call(1, "plan"), call(2, "answer")]
        return super()._ended(rollout, resources)

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        ended = await super().run(*args, **kwargs)
        for rollout_id in self.traces.keys() & ended.keys():
            spans = self.traces.pop(rollout_id)
            self.store.spans.add(rollout_id, ended[rollout_id].fence, spans)
        return ended


@pytest.mark.parametrize(
    "options",
    [
        {"beam_width": 0},
        {"branch_factor": -1},
        {"beam_rounds": 2.5},
        {"gradient_batch_size": True},
        {"val_batch_size": "16"},
        {"diversity_temperature": 3},
        {"diversity_temperature": "hot"},
        {"model": ""},
        {"gradient_model": 4},
        {"async_openai_client": "gpt-5"},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"APO\\({next(iter(options))}="):
        APO(**options)
