"""One process leads at a time; what fails is tried again, and a person is told once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.autopilot.cycle.scripted import (
    AGENT,
    SCENARIOS,
    Scenario,
    ScriptedParts,
    World,
    config_of,
)
from tests.waiting import until_async

from ratchet.autopilot.cycle import autopilot
from ratchet.autopilot.cycle.autopilot import Autopilot
from ratchet.autopilot.cycle.leader import LEASE_S
from ratchet.autopilot.cycle.moves import AUTOPILOT
from ratchet.store import Store
from ratchet.types import Cycle, CycleAction, LeaseLost, OperatorCommand, StoreError


class FailingParts(ScriptedParts):
    """Parts of which some fail."""

    fails: Counter[str]

    async def perform(self, action: CycleAction, cycle: Cycle) -> dict[str, Any]:
        if self.fails[action.kind]:
            self.fails[action.kind] -= 1
            raise StoreError("The forge is away.")
        return await super().perform(action, cycle)


class Run:
    """An autopilot whose ticks the test makes."""

    def __init__(self, store: Store, folder: Path, scenario: Scenario, **fails: int) -> None:
        self.world = World(folder / "world.json")
        self.store = store
        self.parts = FailingParts(scenario, self.world, store, lambda _: None)
        self.parts.fails = Counter(fails)
        self.said: list[str] = []
        self.autopilot = Autopilot(
            AGENT,
            config_of(scenario),
            store,
            self.parts,
            say=self.said.append,
            clock=self.world.clock,
            rng=random.Random(0),
        )

    def tick(self, times: int = 1, each_s: float = 1.0) -> Cycle:
        for _ in range(times):
            asyncio.run(self.autopilot.tick())
            self.world.change(now=self.world.clock() + each_s)
        (cycle,) = self.store.cycles.list(AGENT, limit=1)
        return cycle

    def to(self, state: str) -> Cycle:
        for _ in range(50):
            cycle = self.tick()
            if cycle.state == state:
                return cycle
        raise AssertionError(cycle)

    def heard(self) -> list[str]:
        return [each for each in self.world.read()["effects"] if each.startswith("notify")]


PROPOSED = msgspec.structs.replace(SCENARIOS["proposed"], request="open")


def test_a_request_that_cannot_be_opened_is_tried_again_and_a_person_is_told_once(
    store: Store, tmp_path: Path
) -> None:
    run = Run(store, tmp_path, PROPOSED, propose=6)
    run.to("pull_request")
    cycle = run.tick(4, each_s=20.0)
    assert cycle.state == "pull_request"
    assert cycle.waits.startswith("The pull request is not open yet: The forge is away.")
    assert cycle.waits_until is not None
    cycle = run.tick(30, each_s=600.0)
    assert run.world.read()["effects"].count("propose") == 1
    assert cycle.waits == "It waits for the merge of https://forge/1."
    assert run.heard() == ["notify failing"]
    (propose,) = [a for a in store.outbox.list(cycle.id) if a.kind == "propose"]
    assert (propose.state, propose.tries) == ("done", 7)


def test_a_notification_that_nobody_accepts_is_given_up(store: Store, tmp_path: Path) -> None:
    scenario = msgspec.structs.replace(SCENARIOS["nothing proved in the shadow"])
    run = Run(store, tmp_path, scenario, notify=1000)
    cycle = run.to("held")
    run.tick(60, each_s=1800.0)
    (notify,) = [a for a in store.outbox.list(cycle.id) if a.kind == "notify"]
    assert (notify.state, notify.tries) == ("failed", 12)
    assert run.heard() == []


def test_a_state_whose_work_fails_waits_and_tells_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(store, tmp_path, PROPOSED)
    run.to("learn")
    learn = run.parts.learn

    async def away(cycle: Cycle) -> Any:
        raise StoreError("The coach does not answer.", hint="Start it.")

    monkeypatch.setattr(run.parts, "learn", away)
    cycle = run.tick(40, each_s=30.0)
    assert cycle.state == "learn"
    assert cycle.waits == "The coach does not answer. Start it."
    assert cycle.failures < 12  # with growing pauses
    assert run.heard() == ["notify failing"]
    monkeypatch.setattr(run.parts, "learn", learn)
    cycle = run.tick(5, each_s=3600.0)
    assert (cycle.state != "learn", cycle.failures) == (True, 0)


def test_while_it_is_paused_nothing_moves_but_a_release_is_watched(
    store: Store, tmp_path: Path
) -> None:
    run = Run(store, tmp_path, PROPOSED)
    run.to("shadow")

    def say(verb: Any) -> None:
        now = run.world.clock()
        store.operator_commands.add(OperatorCommand(verb=verb, agent=AGENT, by="ann", at=now))

    say("pause")
    cycle = run.tick(10)
    assert cycle.state == "shadow"
    assert cycle.waits == "ann paused the autopilot. To continue: ratchet autopilot resume."
    say("resume")
    run.to("pull_request")
    say("pause")
    assert run.tick(5).request == ""
    assert run.world.read()["request"] == ""
    say("resume")
    run.tick(5)
    assert run.world.read()["request"] == "open"


def test_a_pause_does_not_keep_a_harmful_release(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path, SCENARIOS["release by other hands"])
    run.tick()
    store.operator_commands.add(OperatorCommand(verb="pause", agent=AGENT, by="ann", at=1.0))
    run.to("quarantined")
    assert "deactivate" in run.world.read()["effects"]


def test_a_stopped_request_is_not_opened_afterwards(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path, PROPOSED, propose=2)
    cycle = run.to("pull_request")
    command = OperatorCommand(verb="stop", agent=AGENT, cycle_id=cycle.id, by="ann", at=1.0)
    store.operator_commands.add(command)
    cycle = run.tick(10, each_s=60.0)
    assert (cycle.state, cycle.message) == ("dropped", "ann stopped it.")
    assert store.cycles.transitions(cycle.id)[-1].actor == "ann"
    assert run.world.read()["effects"] == []
    assert store.outbox.unfinished(AGENT) == []


def test_a_candidate_outside_of_the_policy_is_dropped(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = msgspec.structs.replace(PROPOSED, settings={"resources": ["prompt.*"]})
    run = Run(store, tmp_path, scenario)
    learn = run.parts.learn

    async def learned(cycle: Cycle) -> Any:
        return msgspec.structs.replace(await learn(cycle), resources=("knobs",))

    monkeypatch.setattr(run.parts, "learn", learned)
    cycle = run.to("dropped")
    assert "'knobs', which resources under [autopilot] does not allow" in cycle.message
    assert run.world.read()["effects"] == []


def test_moves_are_on_record_with_their_rule_and_actor(store: Store, tmp_path: Path) -> None:
    scenario = SCENARIOS["approved without a shadow"]
    run = Run(store, tmp_path, scenario)
    cycle = run.to("approval")
    approve = OperatorCommand(
        verb="approve",
        agent=AGENT,
        cycle_id=cycle.id,
        candidate_id=cycle.candidate_id,
        by="ann",
        at=1.0,
    )
    store.operator_commands.add(approve)
    run.to("pull_request")
    moves = {move.target: move for move in store.cycles.transitions(cycle.id)}
    assert (moves["pull_request"].actor, moves["pull_request"].rule) == ("ann", "ann approved it.")
    assert moves["learn"].actor == AUTOPILOT
    assert moves["approval"].rule.endswith("No shadow stage: The agent does not allow it.")
    assert all(len(move.inputs) == len(moves["learn"].inputs) > 8 for move in moves.values())


def test_a_leader_that_was_replaced_moves_nothing(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path, PROPOSED)
    name = run.autopilot.leader.name
    now = run.world.clock()
    mine = store.leases.acquire(name, "old", now=now, ttl_s=LEASE_S)
    assert mine is not None
    with store.leases.guard(mine):
        before = run.to("shadow")
        # It stood still for a while; meanwhile another took over.
        assert store.leases.acquire(name, "new", now=now + LEASE_S + 60, ttl_s=LEASE_S) is not None
        with pytest.raises(LeaseLost):
            run.tick()
    assert store.cycles.get(before.id) == before


def test_one_of_several_leads_and_another_takes_over_when_it_ends(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autopilot, "STANDBY_S", 0.05)

    async def work() -> None:
        stop = [asyncio.Event(), asyncio.Event()]
        with Store.open(store_url) as one, Store.open(store_url) as two:
            first, second = (
                Run(each, tmp_path, msgspec.structs.replace(PROPOSED, tasks=0))
                for each in (one, two)
            )
            leads = asyncio.create_task(first.autopilot.run(stop[0]))
            await until_async(lambda: first.said[:1] == ["The autopilot runs."])
            waits = asyncio.create_task(second.autopilot.run(stop[1]))
            await until_async(lambda: bool(second.said))
            assert second.said == [
                "Another process is running the autopilot; this process stands by."
            ]
            stop[0].set()
            await leads
            await until_async(lambda: "The autopilot runs." in second.said)
            stop[1].set()
            await waits
            assert one.leases.get(first.autopilot.leader.name) is None

    asyncio.run(work())
