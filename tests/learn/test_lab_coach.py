"""The lab's coach: every call is journaled, and none is paid for twice."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ratchet.learn import Budget, BudgetExhausted, Lab
from ratchet.llm import CoachUnavailable, Message, Reply
from ratchet.types import Candidate, Int, Params
from tests.learn.conftest import FakeRunner, Killed, MakeStore, make_lab

BASELINE = Candidate.of({"knobs": Params({"k": Int(5, 1, 20)})})
ASKED = [Message("user", "What is wrong?")]


class StandIn:
    """Answers with the number of the call."""

    def __init__(self, *, dies_after: int | None = None) -> None:
        self.calls = 0
        self.credits: list[tuple[str, bool]] = []
        self.left = dies_after

    async def ask(self, messages: Sequence[Message], **options: Any) -> Reply:
        await asyncio.sleep(0)
        if self.left == 0:
            raise Killed
        if self.left is not None:
            self.left -= 1
        self.calls += 1
        return Reply(text=f"answer {self.calls}", model="one", cost_usd=0.25)

    def credit(self, model: str, survived: bool) -> None:
        self.credits.append((model, survived))


def lab_of(make_store: MakeStore, coach: Any, **options: Any) -> Lab:
    store = options.pop("store", None) or make_store()
    return make_lab(FakeRunner(store, lambda *_: 0.5), store, BASELINE, coach=coach, **options)


def ask(lab: Lab, *steps: str, **options: Any) -> list[Reply]:
    async def work() -> list[Reply]:
        return await asyncio.gather(*(lab.coach.ask(ASKED, step=step, **options) for step in steps))

    return asyncio.run(work())


def test_an_answer_that_nobody_waits_for_any_more_is_kept_and_paid_for(
    make_store: MakeStore,
) -> None:
    store, coach = make_store(), StandIn()
    lab = lab_of(make_store, coach, store=store)

    async def work() -> None:
        draft = asyncio.create_task(lab.coach.ask(ASKED, step="a"))
        while not lab.spent.coach_calls:
            await asyncio.sleep(0)
        draft.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draft
        await lab.coach.settle()

    asyncio.run(work())
    assert (coach.calls, lab.spent.coach_calls, lab.spent.dollars) == (1, 1, 0.25)
    again = StandIn()
    assert ask(lab_of(make_store, again, store=store), "a")[0].text == "answer 1"
    assert again.calls == 0


def test_an_answer_that_does_not_come_is_not_waited_for_for_ever(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet.learn.lab_coach.LATE_ANSWERS_TIMEOUT_S", 0.01)

    class Silent(StandIn):
        async def ask(self, messages: Sequence[Message], **options: Any) -> Reply:
            await asyncio.Event().wait()
            raise AssertionError

    lab = lab_of(make_store, Silent())

    async def work() -> None:
        draft = asyncio.create_task(lab.coach.ask(ASKED, step="a"))
        while not lab.spent.coach_calls:
            await asyncio.sleep(0)
        draft.cancel()
        await asyncio.wait({draft})
        await lab.coach.settle()

    asyncio.run(work())
    assert lab.spent.coach_calls == 0


def test_a_resumed_run_takes_replies_from_the_journal(make_store: MakeStore) -> None:
    store, first, second = make_store(), StandIn(), StandIn()
    told = ask(lab_of(make_store, first, store=store), "a", "b")
    lab = lab_of(make_store, second, store=store)
    assert ask(lab, "a", "b") == told
    assert (first.calls, second.calls) == (2, 0)
    assert (lab.spent.coach_calls, lab.spent.dollars) == (2, 0.5)


def test_what_was_paid_for_before_a_kill_is_kept(make_store: MakeStore) -> None:
    store = make_store()
    dying = StandIn(dies_after=1)
    with pytest.raises(Killed):
        ask(lab_of(make_store, dying, store=store), "a", "b")
    going_on = StandIn()
    ask(lab_of(make_store, going_on, store=store), "a", "b")
    assert dying.calls + going_on.calls == 2


@pytest.mark.parametrize("changed", [{"temperature": 0.5}, {"model": "other"}])
def test_another_question_is_another_call(
    make_store: MakeStore, changed: Mapping[str, Any]
) -> None:
    coach = StandIn()
    lab = lab_of(make_store, coach)
    ask(lab, "a")
    ask(lab, "a", **changed)
    ask(lab, "a")
    assert coach.calls == 2


def test_calls_under_way_count_towards_the_budget(make_store: MakeStore) -> None:
    coach = StandIn()
    lab = lab_of(make_store, coach, budget=Budget(coach_calls=2))
    with pytest.raises(BudgetExhausted, match="2 of 2 coach calls"):
        ask(lab, "a", "b", "c")
    assert coach.calls <= 2
    assert lab.spent.coach_calls == 2


def test_a_call_that_failed_costs_nothing(make_store: MakeStore) -> None:
    class Failing(StandIn):
        async def ask(self, messages: Sequence[Message], **options: Any) -> Reply:
            raise CoachUnavailable("Nobody there.")

    lab = lab_of(make_store, Failing(), budget=Budget(coach_calls=1))
    for _ in range(2):
        with pytest.raises(CoachUnavailable, match="Nobody there"):
            ask(lab, "a")
    assert lab.spent.coach_calls == 0


def test_credit_reaches_the_model_that_answered(make_store: MakeStore) -> None:
    coach = StandIn()
    lab = lab_of(make_store, coach)
    lab.coach.credit(ask(lab, "a")[0], survived=True)
    assert coach.credits == [("one", True)]
