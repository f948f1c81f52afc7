"""What the coach is asked: one request a candidate, with all it needs, and nothing twice."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from ratchet.evaluate import Scorer, cost, json_match
from ratchet.learn import Budget, Finding, Lab, LabSettings
from ratchet.learn.apo import APO
from ratchet.learn.evolve import Evolve
from ratchet.llm import Message, Reply
from ratchet.store import Store
from ratchet.types import Candidate, PromptTemplate, Rollout, Span, Task
from tests.learn.conftest import FakeRunner, MakeStore, Told

SOURCE = PromptTemplate(
    'Sort the ticket under {rules}. Answer with JSON: {{"team": "…"}}\n{ticket}'
)
HOUSE = "the rules of the house"
KINDS = {"refund": "billing", "invoice": "billing", "login": "technical", "press": "media"}


def tickets(split: str, count: int) -> list[Task]:
    """Tickets of each kind in turn."""
    kinds = list(KINDS)
    made = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        text = f"About {kind}, number {split}-{number}."
        made.append(Task(f"internal-id-{split}-{number}", {"ticket": text}, {"team": KINDS[kind]}))
    return made


def sort(resources: Mapping[str, Any], given: Mapping[str, str]) -> str:
    """The agent: knows a kind of ticket where its prompt names it with its team."""
    prompt = resources["system"].text
    kind = next(kind for kind in KINDS if kind in given["ticket"])
    known = f"{kind} goes to {KINDS[kind]}" in prompt
    return json.dumps({"team": KINDS[kind] if known else "sales"})


class Traced(FakeRunner):
    """Leaves a trace of one model call behind each rollout."""

    traces: dict[str, Span] = {}
    before, after = "", ""

    def _ended(self, rollout: Rollout, resources: Any) -> Rollout:
        text = resources["system"].format(rules=HOUSE, ticket=rollout.input["ticket"])
        text = self.before + text + self.after
        said = [{"role": "user", "parts": [{"type": "text", "content": text}]}]
        self.traces[rollout.id] = Span(
            trace_id=rollout.id,
            span_id="1" * 16,
            name="chat",
            start_ns=1,
            end_ns=2,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "asked-for",
                "gen_ai.response.model": "small-model",
                "gen_ai.request.max_tokens": 40,
                "gen_ai.response.finish_reasons": ["length"],
                "gen_ai.input.messages": said,
            },
        )
        return super()._ended(rollout, resources)

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        ended = await super().run(*args, **kwargs)
        for rollout_id in self.traces.keys() & ended.keys():
            span = self.traces.pop(rollout_id)
            self.store.spans.add(rollout_id, ended[rollout_id].fence, [span])
        return ended


class Seat:
    """A coach whose answers are given; it keeps what it was asked."""

    def __init__(
        self, *answers: str | Callable[[str], str], then: str = "NO CHANGE. All said."
    ) -> None:
        self.answers = list(answers)
        self.then = then
        self.requests: list[str] = []

    def credit(self, model: str, survived: bool) -> None:
        """Nothing to learn."""

    async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
        """The next answer."""
        text = "\n".join(message.content for message in messages)
        self.requests.append(text)
        answer = self.answers.pop(0) if self.answers else self.then
        return Reply(text=answer if isinstance(answer, str) else answer(text), model="seat")


def fenced(prompt: str, said: str = "I state what was missing there.") -> str:
    """An answer with a prompt."""
    return f"{said}\n````text\n{prompt}\n````"


def stating(*kinds: str) -> str:
    """The source's prompt with the teams of these kinds."""
    rules = " ".join(f"{kind} goes to {KINDS[kind]}." for kind in kinds)
    return SOURCE.text.replace("{ticket}", f"{rules}\n{{ticket}}")


def shown_tasks(request: str) -> frozenset[str]:
    """Numbers of the tasks whose failures a request shows."""
    return frozenset(re.findall(r"^Task (\d+) \(", request, re.MULTILINE))


class Searched(msgspec.Struct):
    finding: Finding
    lab: Lab
    notes: list[str]


def search(
    store: Store,
    coach: Any,
    algorithm: Any = None,
    *,
    source: PromptTemplate = SOURCE,
    agent: Any = sort,
    runner: type[FakeRunner] = FakeRunner,
    rollouts: int = 200,
    coach_calls: int | None = None,
    guidelines: str = "",
) -> Searched:
    """One whole search on sixteen train tickets."""
    notes: list[str] = []
    fake = runner(store, agent)
    fake.slots = 4  # type: ignore[attr-defined]
    fake.cost_usd = None  # type: ignore[assignment]
    lab = Lab(
        LabSettings(run_id="run", stage="learn", queue="queue", objective="json_match", seed=1,
                    max_attempts=1),
        baseline=Candidate.of({"system": source}),
        train=tickets("train", 16),
        val=tickets("val", 8),
        runner=fake,
        scorer=Scorer(store, [json_match(), cost()]),
        store=store,
        budget=Budget(rollouts=rollouts, coach_calls=coach_calls),
        clock=lambda: 0.0,
        coach=coach,
        listener=Told(on_note=notes.append),
        guidelines=guidelines,
    )  # fmt: skip
    return Searched(asyncio.run((algorithm or APO()).learn(lab)), lab, notes)


@pytest.mark.parametrize("algorithm", [APO, Evolve])
def test_a_strong_coach_needs_one_request_for_a_candidate(
    make_store: MakeStore, algorithm: Any
) -> None:
    coach = Seat(fenced(stating("refund", "login")), fenced(stating(*KINDS)))
    found = search(make_store(), coach, algorithm())
    assert len(coach.requests) == 2
    assert (found.finding.best_val, found.finding.ended) == (1.0, "solved")
    assert found.finding.best.resources["system"] == PromptTemplate(stating(*KINDS))


def test_a_request_holds_what_the_coach_has_to_know(make_store: MakeStore) -> None:
    coach = Seat(fenced(stating("refund", "login")))
    search(make_store(), coach, runner=Traced, guidelines="Stay polite, in British English.")
    first, second = coach.requests[:2]
    assert SOURCE.text in first
    assert "small-model; its answers end at 40 tokens" in first
    assert f"rules:\n{HOUSE}" in first  # the value that all rollouts share, once
    assert first.count(HOUSE) == 1
    assert "cut off at its limit of 40 tokens" in first
    assert "finish: length" in first
    assert 'team: expected "billing", got "sales"' in first
    assert "Stay polite, in British English." in first
    assert "internal-id" not in first
    assert "cost" not in first  # which is not measured here, and no fault of an answer
    assert "val-" not in first + second
    inputs = {f"train-{number}" for number in range(16)}
    assert inputs == set(re.findall(r"train-\d+", first))
    assert "Tried before" not in first
    assert "v1, the current version" in second
    assert "I state what was missing there." in second


def test_a_request_shows_the_text_that_the_prompt_is_sent_in(make_store: MakeStore) -> None:
    class Completing(Traced):
        before, after = "You are a clerk.\n", "\nOutput: {"

    coach = Seat(fenced(stating("refund", "login")))
    search(make_store(), coach, runner=Completing)
    assert f"rules:\n{HOUSE}" in coach.requests[0]
    assert "You are a clerk.\n\n[the prompt]" in coach.requests[0]


def test_no_failures_are_asked_about_twice_and_every_answer_is_told_to_the_next_request(
    make_store: MakeStore,
) -> None:
    coach = Seat(
        "NO CHANGE. The tickets say too little.",
        fenced(stating("refund")),
        "I cannot say.",
        fenced(SOURCE.text.replace("Sort", "Please sort")),
    )
    search(make_store(), coach)
    asked = [shown_tasks(request) for request in coach.requests]
    assert len(asked) == len(set(asked))
    assert "no change: NO CHANGE. The tickets say too little." in coach.requests[1]
    assert all("The tickets say too little." in request for request in coach.requests[1:])
    assert "refused: The answer has no text between two lines of ````." in coach.requests[3]


def test_what_another_algorithm_has_tried_is_told_and_its_failures_are_not_asked_again(
    make_store: MakeStore,
) -> None:
    coach = Seat(fenced(stating("refund", "invoice"), "Money goes to billing in this house."))
    found = search(make_store(), coach, APO(beam_rounds=1, beam_width=1, branch_factor=1,
                                            while_better=False))  # fmt: skip
    asked = len(coach.requests)
    part = found.lab.part("second", budget=Budget(rollouts=60))
    asyncio.run(Evolve().learn(part))
    assert len(coach.requests) > asked
    assert "Money goes to billing in this house." in coach.requests[asked]
    sets = [shown_tasks(request) for request in coach.requests]
    assert len(sets) == len(set(sets))


@pytest.mark.parametrize(
    ("answer", "cause", "words"),
    [
        ('{"team": "billing"}', "coach_unusable", "answered a task"),
        (fenced('{"team": "billing"}'), "coach_unusable", "lost"),
        (fenced(stating("refund")) + fenced("x" * 20), "coach_unusable", "one pair at most"),
        (fenced("Sort the ticket, whatever it says."), "coach_unusable", "lost"),
        ("NO CHANGE. It says all.", "no_gain", "no change would help"),
    ],
    ids=["bare answer", "a task's answer", "two prompts", "no placeholder", "declines"],
)
def test_a_weak_coach_is_found_out_within_five_calls_and_costs_no_rollout(
    make_store: MakeStore, answer: str, cause: str, words: str
) -> None:
    coach = Seat(then=answer)
    found = search(make_store(), coach)
    assert len(coach.requests) <= 5
    assert found.finding.ended == cause
    assert words in found.finding.sentence
    assert found.lab.spent.rollouts == 16 + 8
    assert found.finding.best == found.lab.baseline


def test_a_coach_that_cannot_answer_the_whole_request_gets_a_plain_one(
    make_store: MakeStore,
) -> None:
    coach = Seat("I cannot say.", "NO CHANGE and why.", stating(*KINDS), then="Sort {ticket}.")
    found = search(make_store(), coach)
    whole, plain = coach.requests[:2], coach.requests[2:]
    assert all("````text" in request and "LABEL?" in request for request in whole)
    assert plain
    assert not any("LABEL?" in request for request in plain)
    assert all(0 < request.count("Right answer: ") <= 4 for request in plain)
    assert all(len(request) < min(map(len, whole)) for request in plain)
    assert found.finding.best_val > found.finding.baseline_val + 0.1
    assert found.finding.best.reason == "The coach rewrote 'system'."


def test_a_killed_search_asks_and_pays_for_nothing_twice(make_store: MakeStore) -> None:
    store = make_store()
    answers = [fenced(stating("refund")), "NO CHANGE. So be it.", fenced(stating(*KINDS))]
    first = search(store, Seat(*answers))
    again = Seat()
    second = search(store, again)
    assert again.requests == []
    assert second.finding == first.finding


def test_of_several_prompts_only_those_of_its_part_change(make_store: MakeStore) -> None:
    coach = Seat(fenced(stating(*KINDS)))
    store = make_store()
    fake = FakeRunner(store, sort)
    lab = Lab(
        LabSettings(run_id="run", stage="learn", queue="queue", objective="json_match", seed=1,
                    max_attempts=1),
        baseline=Candidate.of({"plan": PromptTemplate("Plan first."), "system": SOURCE}),
        train=tickets("train", 16),
        val=tickets("val", 8),
        runner=fake,
        scorer=Scorer(store, [json_match()]),
        store=store,
        budget=Budget(rollouts=120),
        clock=lambda: 0.0,
        coach=coach,
    )  # fmt: skip
    finding = asyncio.run(APO().learn(lab.part("one", only=["system"])))
    assert finding.best.changed_from(lab.baseline) == ("system",)
    assert "It also has 'plan', which stays as it is." in coach.requests[0]


@pytest.mark.parametrize("alone", [True, False])
def test_candidates_without_a_gain_end_a_search_only_where_others_wait_for_the_budget(
    make_store: MakeStore, alone: bool
) -> None:
    numbered = iter(range(1000))
    coach = Seat(*[lambda _: fenced(f"{SOURCE.text}\nRule {next(numbered)}.")] * 40)
    algorithm = APO()

    class InPart:
        async def learn(self, lab: Lab) -> Finding:
            return await algorithm.learn(lab.part("apo", budget=lab.budget))

    found = search(make_store(), coach, algorithm if alone else InPart(), agent=by_luck)
    assert found.finding.best == found.lab.baseline
    assert (len(coach.requests) > 5) == alone
    assert (found.finding.ended == "no_gain") == (not alone)


def by_luck(resources: Mapping[str, Any], given: Mapping[str, str]) -> str:
    """An agent whose wrong answers vary with its prompt."""
    team = f"team {len(resources['system'].text)}"
    right = given["ticket"].split()[1].rstrip(",") == "refund"
    return json.dumps({"team": "billing" if right and "Rule" not in str(resources) else team})
