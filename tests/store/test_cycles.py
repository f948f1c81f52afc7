"""Cycles move only as their table allows, and only for the one who leads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ratchet.store import Store
from ratchet.types import (
    CYCLE_TRANSITIONS,
    Conflict,
    Cycle,
    CycleAction,
    CycleState,
    CycleTransition,
    OperatorCommand,
    Spending,
)


def begun(id: str = "c", agent: str = "helper", state: CycleState = "capture") -> Cycle:
    return Cycle(
        id=id,
        agent=agent,
        state=state,
        trigger="20 of 100 traces failed.",
        started_at=1.0,
        entered_at=1.0,
        updated_at=1.0,
    )


def moved(cycle: Cycle, target: CycleState, **changes: Any) -> Cycle:
    version = cycle.version + 1
    return msgspec.structs.replace(cycle, state=target, version=version, **changes)


def move(cycle: Cycle, source: CycleState, number: int = 1) -> CycleTransition:
    return CycleTransition(
        cycle_id=cycle.id,
        number=number,
        source=source,
        target=cycle.state,
        rule="A rule.",
        inputs="digest",
        actor="autopilot",
        at=1.0,
    )


def test_a_cycle_is_stored_with_its_move_its_actions_and_what_it_took(store: Store) -> None:
    cycle = begun()
    action = CycleAction(key="c/notify/1", cycle_id="c", kind="notify", body={"text": "Hello."})
    taken = Spending(rollouts=100, dollars=2.5)
    store.cycles.put(cycle, move(cycle, "idle"), [action], [("2026-11-23", "learn", taken)])
    assert store.cycles.get("c") == cycle
    assert store.cycles.underway("helper") == cycle
    assert store.cycles.find("c") == store.cycles.list("helper") == [cycle]
    assert store.cycles.transitions("c") == [move(cycle, "idle")]
    assert store.outbox.list("c") == store.outbox.unfinished("helper") == [action]
    assert store.cycles.spent("helper", "2026-11-23") == taken
    assert store.cycles.spent("helper", "2026-11-24") == Spending()


def test_what_a_cycle_took_for_a_purpose_is_counted_once(store: Store) -> None:
    cycle = begun()
    day = "2026-11-23"
    store.cycles.put(cycle, move(cycle, "idle"), spent=[(day, "learn", Spending(rollouts=100))])
    learning = moved(cycle, "learn")
    spent = [(day, "learn", Spending(rollouts=40))]
    store.cycles.put(learning, move(learning, "capture", 2), spent=spent)
    proposing = moved(learning, "pull_request")
    store.cycles.put(
        proposing, move(proposing, "learn", 3), spent=[(day, "propose", Spending(requests=1))]
    )
    assert store.cycles.spent("helper", day) == Spending(rollouts=40, requests=1)


def test_every_move_of_the_table_is_accepted_and_every_other_is_refused(disk: Store) -> None:
    for source in CYCLE_TRANSITIONS:
        for target in CYCLE_TRANSITIONS:
            id = f"{source}-{target}"
            cycle = begun(id, agent=id, state=target)
            if source != "idle":
                disk.cycles.put(
                    begun(id, agent=id),
                    move(begun(id), "idle"),
                )
                _force(disk, begun(id, agent=id, state=source))
                cycle = moved(begun(id, agent=id), target)
            if target in CYCLE_TRANSITIONS[source]:
                disk.cycles.put(cycle, move(cycle, source, 2))
                assert disk.cycles.get(id) == cycle
            elif target != "idle":
                with pytest.raises(Conflict, match="cannot go to"):
                    disk.cycles.put(cycle, move(cycle, source, 2))


def _force(store: Store, cycle: Cycle) -> None:
    from sqlalchemy import update

    from ratchet.store.columns import encode
    from ratchet.store.tables import cycles

    row = {"state": cycle.state, "body": encode(cycle)}
    query = update(cycles).where(cycles.c.id == cycle.id).values(row)
    store._database.write(lambda c: c.execute(query))


def test_a_writer_that_has_not_seen_the_last_version_is_refused(store: Store) -> None:
    cycle = begun()
    store.cycles.put(cycle, move(cycle, "idle"))
    noted = moved(cycle, "capture", waits="It waits.")
    store.cycles.put(noted)
    store.cycles.put(noted)  # the answer to the first commit was lost
    learning = moved(cycle, "learn")
    with pytest.raises(Conflict, match="another process has moved it"):
        store.cycles.put(learning, move(learning, "capture", 2))
    assert store.cycles.get("c") == noted


def test_an_agent_has_one_cycle_at_a_time(store: Store) -> None:
    cycle = begun()
    store.cycles.put(cycle, move(cycle, "idle"))
    second = begun("second")
    with pytest.raises(Conflict, match="another cycle that has not ended"):
        store.cycles.put(second, move(second, "idle"))
    elsewhere = begun("third", agent="other")
    store.cycles.put(elsewhere, move(elsewhere, "idle"))
    dropped = moved(cycle, "dropped")
    store.cycles.put(dropped, move(dropped, "capture", 2))
    store.cycles.put(second, move(second, "idle"))
    assert store.cycles.underway("helper") == second


def test_an_action_of_a_known_key_is_not_stored_again(store: Store) -> None:
    cycle = begun()
    action = CycleAction(key="c/split/1", cycle_id="c", kind="split")
    store.cycles.put(cycle, move(cycle, "idle"), [action])
    done = msgspec.structs.replace(action, state="done", tries=1)
    store.outbox.put(done)
    learning = moved(cycle, "learn")
    store.cycles.put(learning, move(learning, "capture", 2), [action])
    assert store.outbox.get("c/split/1") == done
    assert store.outbox.unfinished("helper") == []


def test_people_pause_and_resume(store: Store) -> None:
    def say(verb: Any, cycle_id: str = "") -> OperatorCommand:
        command = OperatorCommand(verb=verb, agent="helper", cycle_id=cycle_id, by="ann", at=1.0)
        store.operator_commands.add(command)
        return command

    commands = store.operator_commands
    assert commands.pause("helper") is None
    paused = say("pause")
    approved = say("approve", "c")
    assert commands.pause("helper") == paused
    assert commands.pause("other") is None
    assert commands.about("c") == [approved]
    say("resume")
    assert commands.pause("helper") is None


def test_a_lease_is_held_by_one_and_taken_over_when_it_ran_out(store: Store) -> None:
    first = store.leases.acquire("autopilot", "a", now=0.0, ttl_s=15.0)
    assert first is not None
    assert store.leases.acquire("autopilot", "b", now=14.0, ttl_s=15.0) is None
    renewed = store.leases.acquire("autopilot", "a", now=14.0, ttl_s=15.0)
    assert renewed is not None
    assert renewed.fence == first.fence
    assert store.leases.acquire("autopilot", "b", now=16.0, ttl_s=15.0) is None
    second = store.leases.acquire("autopilot", "b", now=30.0, ttl_s=15.0)
    assert second is not None
    assert second.fence > first.fence
    assert store.leases.get("autopilot") == second
    store.leases.release(first)  # too late: it is another's
    assert store.leases.get("autopilot") == second
    store.leases.release(second)
    assert store.leases.get("autopilot") is None


def test_nothing_of_a_leader_that_was_replaced_is_written(store: Store) -> None:
    old = store.leases.acquire("autopilot", "a", now=0.0, ttl_s=15.0)
    assert old is not None
    cycle = begun()
    with store.leases.guard(old):
        store.cycles.put(cycle, move(cycle, "idle"))
        new = store.leases.acquire("autopilot", "b", now=20.0, ttl_s=15.0)
        assert new is not None
        learning = moved(cycle, "learn")
        command = OperatorCommand(verb="pause", agent="helper", by="a", at=1.0)
        refused = [
            lambda: store.cycles.put(learning, move(learning, "capture", 2)),
            lambda: store.operator_commands.add(command),
            lambda: store.settings.get_or_create("x", lambda: "y"),
        ]
        for write in refused:
            with pytest.raises(Conflict, match="now leads 'autopilot'"):
                write()
        with store.leases.guard(new):
            store.cycles.put(learning, move(learning, "capture", 2))
    assert store.cycles.get("c") == learning
    assert store.operator_commands.list("helper") == []
