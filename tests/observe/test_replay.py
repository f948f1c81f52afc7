"""Tools with side effects in rollouts: recorded results in place of acting, where there are any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ratchet
from ratchet.observe import Collector, Handle, SideEffectBlocked, collecting
from ratchet.observe.replay import REPLAYED, Replay, is_replayable, recorded_calls
from ratchet.store.local_agents import open_with_agents

Start = Callable[..., Handle]

acted: list[Any] = []


@ratchet.tool(side_effects=True)
def book(room: str, nights: int = 1) -> dict[str, Any]:
    acted.append(room)
    return {"room": room, "nights": nights}


@ratchet.tool(side_effects=True)
async def pay(amount: int) -> int:
    acted.append(amount)
    return amount


@ratchet.tool(side_effects=True)
def odd(room: str) -> tuple[str, int]:
    return room, 1


@contextmanager
def rollout(*calls: tuple[str, str, str]) -> Iterator[Collector]:
    collector = Collector(Replay(calls))
    token = collecting.set(collector)
    try:
        yield collector
    finally:
        collecting.reset(token)


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    acted.clear()


def test_a_recorded_call_gives_its_result_and_does_not_act() -> None:
    with rollout(("book", '{"room":"A","nights":2}', '{"room":"A","nights":2}')) as collector:
        assert book(nights=2, room="A") == {"room": "A", "nights": 2}
    assert acted == []
    assert collector.spans[0].attributes[REPLAYED] is True
    assert collector.blocked == ""


def test_each_result_is_given_once_in_the_order_of_the_calls() -> None:
    recorded = [("book", '{"room":"A"}', "1"), ("book", '{"room":"A"}', "2")]
    with rollout(*recorded) as collector:
        assert [book("A"), book("A")] == [1, 2]
        with pytest.raises(SideEffectBlocked):
            book("A")
    assert collector.blocked == "book"
    assert acted == []


@pytest.mark.parametrize("call", [("book", '{"room":"B"}', "1"), ("pay", '{"room":"A"}', "1")])
def test_other_arguments_and_other_tools_are_blocked(call: tuple[str, str, str]) -> None:
    with rollout(call), pytest.raises(SideEffectBlocked):
        book("A")
    assert acted == []


def test_a_coroutine_is_replayed_too() -> None:
    async def work() -> int:
        with rollout(("pay", '{"amount":5}', "7")):
            return await pay(5)

    assert asyncio.run(work()) == 7
    assert acted == []


def test_what_a_live_agent_did_can_be_replayed(start: Start, project: Path) -> None:
    handle = start("bot")
    with ratchet.trace("request") as step:
        book("A", nights=2)
        odd("A")
        asyncio.run(pay(3))
    assert handle.flush(60)
    with open_with_agents(f"sqlite:///{project}/.ratchet/ratchet.db") as store:
        trace = store.traces.get(step.trace_id)
        assert trace is not None
        calls = recorded_calls(trace.spans)
    assert [call[0] for call in calls] == ["book", "pay"], "a tuple would come back as a list"
    acted.clear()
    with rollout(*[(a, b, c) for a, b, c in calls]):
        assert book("A", nights=2) == {"room": "A", "nights": 2}
    assert acted == []


class Broken:
    def __eq__(self, other: object) -> bool:
        raise ValueError

    __hash__ = None  # type: ignore[assignment]


def test_only_what_json_gives_back_is_replayable() -> None:
    assert is_replayable({"a": [1, None, "x"]}, '{"a":[1,null,"x"]}')
    assert not is_replayable((1, 2), "[1,2]")
    assert not is_replayable("long", '"lo… [2 more characters]')
    assert not is_replayable(Broken(), '"broken"')
