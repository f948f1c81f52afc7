"""The shadow stage: live inputs run for a candidate, within bounds, and paired with answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.autopilot.live_traces import START_S, begin, record

import ratchet
from ratchet.autopilot.cycle_sections import LiveSection
from ratchet.autopilot.shadow import SWITCHED_OFF, Mirror, MirrorBounds, Mirrored, ShadowStage
from ratchet.evaluate import evaluator
from ratchet.run import Runner
from ratchet.store import Store
from ratchet.types import AgentSettings, Candidate, PromptTemplate, SpanRecord
from ratchet.worker.agent import Agent, AgentSpec
from ratchet.worker.inprocess import AsyncExecutor

NOW = START_S + 3_000.0
ALL = MirrorBounds(share=1.0)
ALLOWED: dict[str, Any] = {"ratchet.mirror": True}

sent: list[str] = []
called: list[str] = []


@ratchet.tool(side_effects=True)
def send(text: str) -> str:
    sent.append(text)
    return "sent"


@ratchet.agent
async def answer(question: str) -> str:
    called.append(question)
    if question == "wait":
        await asyncio.sleep(60)
    if question == "send":
        return send("mail")
    if question == "pay":
        with ratchet.llm_call(model="m") as call:
            call.set("gen_ai.usage.input_tokens", 10)
            call.set("ratchet.cost_usd", 0.25)
    if question == "fail":
        raise ValueError("no")
    resource = ratchet.bind.context.resolve("system")
    return resource.text if isinstance(resource, PromptTemplate) else "source"


@evaluator
def polite(output: str) -> float:
    return 1.0 if "please" in output else 0.25


@pytest.fixture(autouse=True)
def nothing_done() -> Iterator[None]:
    sent.clear()
    called.clear()
    yield
    assert sent == [], "a tool with side effects acted"


SOURCE = Candidate.of({"system": PromptTemplate("source")})
BETTER = SOURCE.derive({"system": PromptTemplate("please")}, algorithm="apo")


def stage(**fields: Any) -> ShadowStage:
    given: dict[str, Any] = {
        "experiment_id": "e",
        "agent": "bot",
        "candidate": BETTER,
        "release": SOURCE,
        "queue": "q",
        "max_attempts": 1,
    }
    return ShadowStage(**{**given, **fields})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def mirror(
    store: Store,
    bounds: MirrorBounds = ALL,
    cursor: str | None = None,
    *,
    calls: int = 1,
    clock: Clock | None = None,
    meanwhile: Any = None,
    **fields: Any,
) -> Mirrored:
    """What the last of some calls gives, each with the cursor of the one before."""

    async def work() -> Mirrored:
        for candidate in (SOURCE, BETTER):
            store.candidates.put(candidate)
        executor = AsyncExecutor(
            Agent(AgentSpec(entry="m:f", root="."), answer), slots=4, timeout_s=60
        )
        async with Runner(store, "q", executor, drain_s=0.0) as runner:
            made = Mirror(store, runner, polite, stage(**fields), bounds, clock=clock or Clock())
            also = asyncio.create_task(meanwhile()) if meanwhile else None
            at = cursor
            for _ in range(calls):
                found = await made.some(at, since=0.0, now=NOW)
                at = found.cursor
            if also is not None:
                await also
            return found

    return asyncio.run(work())


def test_a_live_call_is_paired_with_what_the_candidate_answers(store: Store) -> None:
    id = record(store, 1, "hello", "no", **{"ratchet.group": "english"})
    found = mirror(store)
    (pair,) = found.pairs
    assert (pair.trace_id, pair.baseline, pair.candidate) == (id, 0.25, 1.0)
    assert (pair.blocked, pair.group) == ("", "english")
    assert called == ["hello"]
    rollout = store.rollouts.get([pair.rollout_id])[pair.rollout_id]
    assert (rollout.output, rollout.purpose) == ("please", "shadow/e")


def test_a_call_that_takes_long_is_mirrored_once_it_ends(store: Store) -> None:
    begin(store, 1)
    long = begin(store, 2_500)
    later = record(store, 2_600, "hello", "no")
    early = mirror(store)
    assert (early.pairs, early.left_out) == ((), {"it has not ended": 1})
    record(store, 2_500, "long", "no", took_s=300.0)
    found = mirror(store, cursor=early.cursor)
    assert [pair.trace_id for pair in found.pairs] == [long, later]


def test_a_side_effect_is_blocked_and_counted(store: Store) -> None:
    record(store, 1, "send", "sent")
    found = mirror(store)
    (pair,) = found.pairs
    assert "'send' has side effects" in pair.blocked
    assert (pair.baseline, pair.candidate) == (0.25, None)
    assert found.blocked == {"send": 1}


def test_a_side_effect_gives_its_recorded_result_in_place_of_acting(store: Store) -> None:
    id = record(store, 1, "send", "sent")
    trace = store.traces.get(id)
    assert trace is not None
    call = msgspec.structs.replace(
        trace.spans[0],
        span_id="f" * 16,
        parent_id=trace.spans[0].span_id,
        name="send",
        attributes={
            "gen_ai.tool.call.arguments": '{"text": "mail"}',
            "gen_ai.tool.call.result": '"sent, please"',
            "ratchet.replayable": True,
        },
    )
    store.spans.put([SpanRecord(span=call, agent="bot")])
    found = mirror(store)
    (pair,) = found.pairs
    assert (pair.candidate, pair.blocked) == (1.0, "")
    assert (found.replayed, found.blocked) == ({"send": 1}, {})


def test_a_candidate_that_fails_scores_zero(store: Store) -> None:
    record(store, 1, "fail", "fine")
    (pair,) = mirror(store).pairs
    assert (pair.candidate, pair.blocked) == (0.0, "")


def test_only_calls_of_agents_that_allow_it_are_mirrored(store: Store) -> None:
    record(store, 1, "one")
    record(store, 2, "two", **ALLOWED)
    found = mirror(store, MirrorBounds())
    assert called == ["two"]
    assert found.left_out == {"its agent does not allow it": 1}


def test_a_call_within_a_step_is_mirrored_as_its_agent_allows(store: Store) -> None:
    record(store, 1, "one", around=True)
    record(store, 2, "two", around=True, **ALLOWED)
    found = mirror(store, MirrorBounds())
    assert called == ["two"]
    assert found.left_out == {"its agent does not allow it": 1}


def test_a_share_of_calls_is_mirrored(store: Store) -> None:
    for number in range(1, 101):
        record(store, number)
    found = mirror(store, MirrorBounds(share=0.3, per_minute=1_000))
    assert 15 <= len(found.pairs) <= 45
    assert found.left_out == {"it is not in the share": 100 - len(found.pairs)}


def test_what_is_not_whole_is_left_out_with_the_reason(store: Store) -> None:
    record(store, 1, "mail [redacted:email]")
    record(store, 2, "long… [900 more characters]")
    record(store, 3, "fine", "to [redacted:email]")
    record(store, 4, "fine", "cut… [900 more characters]")
    record(store, 5, "fine", **{"ratchet.candidate_id": "other"})
    record(store, 6, "fine", **{"ratchet.input": ""})
    found = mirror(store)
    assert called == []
    assert found.left_out == {
        "its input was redacted": 1,
        "its input was recorded in part only": 1,
        "its answer was redacted": 1,
        "its answer was recorded in part only": 1,
        "it did not run the release": 1,
        "its input was not recorded": 1,
    }


def test_with_a_rerun_both_sides_are_rollouts_and_answers_need_not_be_whole(store: Store) -> None:
    record(store, 1, "fine", "to [redacted:email]")
    record(store, 2, "fine", "cut… [900 more characters]")
    record(store, 3, "mail [redacted:email]")
    found = mirror(store, MirrorBounds(share=1.0, rerun=True))
    assert [(pair.baseline, pair.candidate) for pair in found.pairs] == [(0.25, 1.0)] * 3
    assert len(called) == 6


def test_a_killed_call_repeats_nothing_that_it_ran(store: Store) -> None:
    for number in range(1, 6):
        record(store, number, f"q{number}")
    first = mirror(store)
    assert mirror(store).pairs == first.pairs
    assert len(called) == 5
    assert mirror(store, cursor=first.cursor).pairs == ()


def test_no_more_than_so_many_a_minute(store: Store) -> None:
    for number in range(1, 11):
        record(store, number, f"q{number}")
    clock = Clock()
    bounds = MirrorBounds(share=1.0, per_minute=4.0)
    first = mirror(store, bounds, clock=clock)
    assert (len(first.pairs), len(called)) == (4, 4)
    assert first.halted == "4 inputs mirrored within a minute"
    assert mirror(store, bounds, first.cursor, calls=2).pairs == (), "nor in the next call"
    assert len(called) == 8


def test_no_more_than_so_many_dollars(store: Store) -> None:
    for number in range(1, 4):
        record(store, number, "pay")
    bounds = MirrorBounds(share=1.0, dollars=0.5)
    first = mirror(store, bounds)
    assert len(first.pairs) == 3, "what it costs is known afterwards"
    assert first.halted == "the stage's 0.5 dollars are spent"
    record(store, 4, "pay")
    assert mirror(store, bounds, first.cursor).pairs == ()


def test_the_agents_settings_switch_it_off_and_bound_it(store: Store) -> None:
    record(store, 1)
    store.agents.put(AgentSettings(name="bot", mirror=0.0), 1.0)
    found = mirror(store)
    assert (found.pairs, found.halted, called) == ((), SWITCHED_OFF, [])
    store.agents.put(AgentSettings(name="bot", mirror=1.0), 2.0)
    assert len(mirror(store, MirrorBounds()).pairs) == 1


def test_the_switch_stops_rollouts_that_run(store: Store) -> None:
    record(store, 1, "wait")

    async def off() -> None:
        while not called:
            await asyncio.sleep(0.01)
        store.agents.put(AgentSettings(name="bot", mirror=0.0), 1.0)

    found = mirror(store, meanwhile=off)
    assert (found.pairs, found.halted, found.cursor) == ((), SWITCHED_OFF, None)
    (rollout,) = store.rollouts.list(purpose="shadow/e")[0]
    assert rollout.status == "cancelled"
    store.agents.put(AgentSettings(name="bot"), 2.0)
    assert mirror(store).left_out == {"it was stopped by the switch": 1}


def test_the_configuration_sets_the_bounds() -> None:
    assert MirrorBounds.of(LiveSection()) == MirrorBounds()
    assert MirrorBounds.of(LiveSection(mirror=True)).share == 1.0
    section = LiveSection(mirror=0.5, per_minute=5.0, dollars=1.0, rerun=True)
    assert MirrorBounds.of(section) == MirrorBounds(
        share=0.5, per_minute=5.0, dollars=1.0, rerun=True
    )
