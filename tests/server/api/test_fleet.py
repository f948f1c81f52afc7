"""The fleet over HTTP: waiting for the ends of rollouts, runners, and queues that take turns."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

import ratchet
from ratchet.server.runners import MAX_RUNNERS, PRESENT_S, RunnerRegistry
from ratchet.types import Claim, Outcome, Rollout, Score, Span
from tests.serving import RunningServer


def rollouts(queue: str, count: int) -> list[Rollout]:
    return [
        Rollout(id=f"{queue[-1]}{n}", queue=queue, candidate_id="", task_id=str(n), input=n)
        for n in range(count)
    ]


def outcome(claim: Claim, **more: Any) -> Outcome:
    return Outcome(
        rollout_id=claim.rollout.id,
        fence=claim.fence,
        **{
            "status": "succeeded",
            "started_at": 1.0,
            "ended_at": 2.0,
            "duration_s": 1.0,
            **more,
        },
    )


def span(name: str) -> Span:
    return Span(trace_id="a" * 32, span_id="b" * 16, name=name, start_ns=1, end_ns=2)


@pytest.fixture
def client(server: RunningServer) -> ratchet.Client:
    return ratchet.Client(server.url)


def test_a_wait_ends_with_the_first_rollout_and_has_its_records(client: ratchet.Client) -> None:
    client.rollouts.create(rollouts("q", 3))
    (claim,) = client.rollouts.claim("q", "w")
    got: list[Any] = []
    ids = ["q0", "q1", "q2"]
    waiting = threading.Thread(target=lambda: got.append(client.fleet.wait(ids, wait_s=30)))
    waiting.start()
    score = Score(evaluator="reward", version="1", value=0.5)
    client.rollouts.finish([outcome(claim, output="x", spans=(span("own"),), scores=(score,))])
    waiting.join(20)
    (found,) = got
    assert [one.rollout.id for one in found.ended] == ["q0"]
    assert found.ended[0].rollout.output == "x"
    assert [one.name for one in found.ended[0].spans] == ["own"]
    assert [one.value for one in found.ended[0].scores] == [0.5]
    assert found.unknown == ()


def test_queues_take_turns_and_a_waiting_claim_of_a_pattern_is_woken(
    server: RunningServer,
) -> None:
    async def main() -> tuple[list[Claim], list[Claim], list[str]]:
        async with ratchet.AsyncClient(server.url) as client:
            waiting = asyncio.create_task(
                client.rollouts.claim(["default", "agent/*"], "w", 2, wait_s=30)
            )
            while server.app.services.dispatcher.waiting("agent/*") == 0:
                await asyncio.sleep(0.01)
            await client.rollouts.create([*rollouts("agent/a", 20), *rollouts("agent/b", 4)])
            first = await waiting
            second = await client.rollouts.claim(["default", "agent/*"], "w", 6)
            return first, second, await client.fleet.queues("agent/")

    first, second, queues = asyncio.run(main())
    assert Counter(c.rollout.queue for c in first) == {"agent/a": 1, "agent/b": 1}
    assert Counter(c.rollout.queue for c in second) == {"agent/a": 3, "agent/b": 3}
    assert queues == ["agent/a"]


def test_a_runner_that_hangs_up_while_it_waits_is_gone(server: RunningServer) -> None:
    async def main() -> tuple[int, int]:
        async with ratchet.AsyncClient(server.url) as asking:
            async with ratchet.AsyncClient(server.url) as client:
                claiming = asyncio.create_task(client.rollouts.claim("q", "me", wait_s=30))
                while not (before := await asking.fleet.runners()):
                    await asyncio.sleep(0.01)
                claiming.cancel()
                await asyncio.gather(claiming, return_exceptions=True)
            while after := await asking.fleet.runners():
                await asyncio.sleep(0.01)
            return len(before), len(after)

    assert asyncio.run(main()) == (1, 0)


def test_a_runner_without_claims_is_present_as_long_as_it_holds_attempts() -> None:
    now = [0.0]
    registry = RunnerRegistry(clock=lambda: now[0])
    registry.saw("gone", ("q",))
    registry.saw("busy", ("q",))
    now[0] = PRESENT_S + 1
    assert [one.name for one in registry.present({"busy"})] == ["busy"]
    for number in range(MAX_RUNNERS):
        registry.saw(f"{number}", ("q",))
    assert "busy" not in {one.name for one in registry.present({"busy"})}
