"""A world whose every change is counted, in which cycles are walked and killed.

`python -m tests.autopilot.cycle.scripted STORE WORLD SCENARIO CRASH_AT` walks one in a process of
its own, which kills itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ratchet.autopilot.config import Config
from ratchet.autopilot.cycle.autopilot import Autopilot
from ratchet.autopilot.cycle.parts import Captured, Learned, Noticed, RequestState, StageMeasurement
from ratchet.store import Store
from ratchet.types import (
    FINAL_CYCLE_STATES,
    Activation,
    Cycle,
    CycleAction,
    CycleState,
    CycleTransition,
    Decision,
    Experiment,
    OperatorCommand,
    StageDecision,
    StoreError,
)

AGENT = "helper"
HOUR_S = 3600.0


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What the world does, and the states that a cycle goes through in it."""

    path: tuple[CycleState, ...]
    settings: dict[str, Any] = {}
    """Of [autopilot]."""
    tasks: int = 100
    learned: str = "promote"
    shadow: str = "pass"
    """Verdict; empty for an agent without a shadow stage."""
    canary: str = "pass"
    watch: str = "pass"
    request: RequestState = "merged"
    request_opens: bool = True
    activates: bool = True
    foreign: bool = False
    """A release is made by other hands."""
    says: dict[str, str] = {}
    """What a person says in a state: `approve`, `deny` or `stop`."""
    late: str = ""
    """What becomes of the request once the cycle is held."""


AUTO = {"mode": "auto"}

SCENARIOS: dict[str, Scenario] = {
    "proposed": Scenario(
        path=("idle", "capture", "learn", "shadow", "pull_request", "watch", "done")
    ),
    "automatic": Scenario(
        settings={**AUTO, "approval": True},
        says={"approval": "approve"},
        watch="alarm",
        path=(
            *("idle", "capture", "learn", "shadow", "approval"),
            *("canary", "canary", "canary", "activate", "watch", "rollback", "quarantined"),
        ),
    ),
    "canary before the request": Scenario(
        settings={"mode": "canary"},
        shadow="",
        path=(
            *("idle", "capture", "learn"),
            *("canary", "canary", "canary", "pull_request", "watch", "done"),
        ),
    ),
    "approved without a shadow": Scenario(
        settings={"approval": True},
        shadow="",
        says={"approval": "approve"},
        watch="alarm",
        path=(
            *("idle", "capture", "learn", "approval", "pull_request"),
            *("watch", "rollback", "quarantined"),
        ),
    ),
    "no shadow": Scenario(
        shadow="",
        request="closed",
        path=("idle", "capture", "learn", "pull_request", "dropped"),
    ),
    "harm in the canary": Scenario(
        settings=AUTO,
        canary="harm",
        path=("idle", "capture", "learn", "shadow", "canary", "rollback", "quarantined"),
    ),
    "nothing proved in the canary": Scenario(
        settings=AUTO,
        canary="inconclusive",
        path=("idle", "capture", "learn", "shadow", "canary", "held", "dropped"),
    ),
    "nothing proved in the shadow": Scenario(
        shadow="inconclusive", path=("idle", "capture", "learn", "shadow", "held", "dropped")
    ),
    "harm in the shadow": Scenario(
        shadow="harm", path=("idle", "capture", "learn", "shadow", "dropped")
    ),
    "not proved": Scenario(learned="not_proved", path=("idle", "capture", "learn", "dropped")),
    "no gain": Scenario(learned="no_gain", path=("idle", "capture", "learn", "dropped")),
    "too few tasks": Scenario(tasks=3, path=("idle", "capture", "dropped")),
    "denied": Scenario(
        settings={"approval": True},
        says={"approval": "deny"},
        path=("idle", "capture", "learn", "shadow", "approval", "dropped"),
    ),
    "stopped in the canary": Scenario(
        settings=AUTO,
        says={"canary": "stop"},
        path=("idle", "capture", "learn", "shadow", "canary", "dropped"),
    ),
    "merged late": Scenario(
        request="open",
        late="merged",
        path=("idle", "capture", "learn", "shadow", "pull_request", "held", "watch", "done"),
    ),
    "cannot be activated": Scenario(
        settings=AUTO,
        activates=False,
        path=(
            *("idle", "capture", "learn", "shadow", "canary", "canary", "canary"),
            *("activate", "rollback", "quarantined"),
        ),
    ),
    "release by other hands": Scenario(
        foreign=True, watch="alarm", path=("idle", "watch", "rollback", "quarantined")
    ),
}

CONFIG = """
[agent]
entry = "agent:answer"

[canary]
steps = [0.1, 0.5, 1.0]
step_units = 10
step_hours = 0
"""


class World:
    """What is outside the cycles' rows, in a file: it outlives every kill."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Any]:
        """The world as it is."""
        if not self.path.exists():
            return {"now": 1_000_000.0, "active": "", "share": 0.0, "request": "", "effects": []}
        found: dict[str, Any] = json.loads(self.path.read_text())
        return found

    def change(self, effect: str = "", **values: Any) -> None:
        """Change it, and count the change."""
        world = {**self.read(), **values}
        if effect:
            world["effects"] = [*world["effects"], effect]
        partial = self.path.with_suffix(".new")
        partial.write_text(json.dumps(world))
        partial.replace(self.path)

    def clock(self) -> float:
        """Its time."""
        return float(self.read()["now"])


class ScriptedParts:
    """Parts that do as a scenario says; acting again finds what was done."""

    def __init__(
        self, scenario: Scenario, world: World, store: Store, point: Callable[[str], None]
    ) -> None:
        self.scenario = scenario
        self.world = world
        self.store = store
        self.point = point

    async def noticed(self, since: float) -> Noticed | None:
        if self.scenario.foreign or since:
            return None
        return Noticed(sentence="20 of 50 traces are bad.")

    def active(self) -> Activation | None:
        active = self.world.read()["active"]
        if (
            self.scenario.foreign
            and not active
            and "deactivate" not in self.world.read()["effects"]
        ):
            active = "candidate"
        if not active:
            return None
        return Activation(agent=AGENT, candidate_id=active, activated_at=1_000_000.0)

    def why_no_shadow(self, cycle: Cycle) -> str:
        return "" if self.scenario.shadow else "The agent does not allow it."

    def capture(self, cycle: Cycle) -> Captured:
        return Captured(dataset="live@1", tasks=self.scenario.tasks, added=7)

    async def learn(self, cycle: Cycle) -> Learned:
        decision = Decision(
            verdict="promote",
            metric="m",
            alpha=0.05,
            pairs=1,
            baseline=0.0,
            candidate=1.0,
            e_value=99.0,
            interval=(0.0, 1.0),
            sentence="It is better.",
        )
        self.store.experiments.put(
            Experiment(
                id="experiment",
                run_id="run",
                baseline_id="baseline",
                candidate_id="candidate",
                dataset_version="1",
                stream="s",
                history=(),
                alpha=0.05,
                created_at=1.0,
                decision=decision,
            )
        )
        return Learned(
            verdict=self.scenario.learned,  # type: ignore[arg-type]
            sentence="It is better." if self.scenario.learned == "promote" else "No gain.",
            run_id="run",
            baseline_id="baseline",
            candidate_id="candidate",
            experiment_id="experiment",
            rollouts=40,
        )

    def measured(self, cycle: Cycle, stage: Any, verdict: str, after: int) -> StageMeasurement:
        """Ten units more; the verdict comes after some of them."""
        units = cycle.progress.get("units", 0) + 10
        decision = StageDecision(
            stage=stage,
            verdict=verdict if units >= after else None,  # type: ignore[arg-type]
            metric="score",
            alpha=0.05,
            baseline_count=units,
            candidate_count=units,
            baseline=0.5,
            candidate=0.5,
            e_value=1.0,
            needed=20.0,
            sentence=f"{stage}: {verdict}.",
        )
        return StageMeasurement(decision=decision, progress={"units": units}, units=units)

    async def shadow(self, cycle: Cycle) -> StageMeasurement:
        return self.measured(cycle, "shadow", self.scenario.shadow, 20)

    async def canary(self, cycle: Cycle) -> StageMeasurement:
        if "canary" in self.scenario.says:  # it stays at its first step until somebody speaks
            found = self.measured(cycle, "canary", "pass", 10**9)
            return msgspec.structs.replace(found, units=0)
        after = 40 if self.scenario.canary == "pass" else 10
        return self.measured(cycle, "canary", self.scenario.canary, after)

    async def watch(self, cycle: Cycle) -> StageMeasurement:
        return self.measured(cycle, "watch", self.scenario.watch, 20)

    async def request_state(self, cycle: Cycle) -> RequestState:
        late = cycle.state == "held" and self.scenario.late
        return late or self.scenario.request  # type: ignore[return-value]

    async def perform(self, action: CycleAction, cycle: Cycle) -> dict[str, Any]:
        self.point(f"before {action.kind}")
        result = self._perform(action, cycle)
        self.point(f"after {action.kind}")
        return result

    def _perform(self, action: CycleAction, cycle: Cycle) -> dict[str, Any]:
        world, change = self.world.read(), self.world.change
        if action.kind == "notify":
            change(f"notify {action.body['event']}")  # not idempotent: each one is heard
        elif action.kind == "split" and world["share"] != action.body["enrolled"]:
            change(f"split {action.body['enrolled']}", share=action.body["enrolled"])
        elif action.kind == "propose":
            if not world["request"]:
                change("propose", request="open")
            return {"request": "https://forge/1", "release_id": "release"}
        elif action.kind == "close_request" and world["request"] == "open":
            change("close_request", request="closed")
        elif action.kind == "activate":
            if not self.scenario.activates:
                raise StoreError("The server does not answer.")
            if world["active"] != "candidate":
                change("activate", active="candidate")
            return {"release_id": "release"}
        elif action.kind == "deactivate":
            if world["active"] == "candidate" or (
                self.scenario.foreign and "deactivate" not in world["effects"]
            ):
                change("deactivate", active="")
        elif action.kind == "revert" and "revert" not in world["effects"]:
            change("revert")
        return {}


def config_of(scenario: Scenario) -> Config:
    """The configuration of a scenario."""
    import tomllib

    data = {**tomllib.loads(CONFIG), "autopilot": {"cooldown_hours": 0.0, **scenario.settings}}
    return Config.model_validate(data)


def walk(store: Store, world: World, scenario: Scenario, point: Callable[[str], None]) -> Cycle:
    """Let the autopilot run until its cycle has ended, from wherever it is."""
    write, put = store._database.write, store.cycles.put

    def watched_write(work: Any, **options: Any) -> Any:
        point("before a write")
        result = write(work, **options)
        point("after a write")
        return result

    def watched_put(
        cycle: Cycle, move: CycleTransition | None = None, *rest: Any, **by: Any
    ) -> None:
        name = f"{move.source} to {move.target}" if move else "a note"
        point(f"before {name}")
        put(cycle, move, *rest, **by)
        point(f"after {name}")

    store._database.write = watched_write  # type: ignore[method-assign]
    store.cycles.put = watched_put  # type: ignore[method-assign]
    parts = ScriptedParts(scenario, world, store, point)
    rng = random.Random(0)
    autopilot = Autopilot(
        AGENT, config_of(scenario), store, parts, say=lambda _: None, clock=world.clock, rng=rng
    )

    async def go() -> Cycle:
        # A new process: the lease of the one that was killed has run out.
        world.change(now=world.clock() + 20.0)
        lease = store.leases.acquire(
            "autopilot", autopilot.leader.holder, now=world.clock(), ttl_s=15.0
        )
        assert lease is not None
        with store.leases.guard(lease):
            for _ in range(200):
                await autopilot.tick()
                newest = store.cycles.list(AGENT, limit=1)
                if newest and newest[0].state in FINAL_CYCLE_STATES:
                    if not store.outbox.unfinished(AGENT):
                        return newest[0]
                    world.change(now=world.clock() + HOUR_S)
                    await autopilot.performer.perform_due()
                    return newest[0]
                if newest:
                    say(store, newest[0], scenario, world.clock())
                idle = newest and newest[0].state in ("held", "capture", "pull_request")
                world.change(now=world.clock() + (20 * HOUR_S if idle else 60.0))
        raise AssertionError(f"It does not end: {newest}")

    return asyncio.run(go())


def say(store: Store, cycle: Cycle, scenario: Scenario, now: float) -> None:
    """Say what the scenario's person says in this state, once."""
    verb = scenario.says.get(cycle.state)
    if verb and not store.operator_commands.about(cycle.id):
        store.operator_commands.add(
            OperatorCommand(
                verb=verb,  # type: ignore[arg-type]
                agent=AGENT,
                cycle_id=cycle.id,
                candidate_id=cycle.candidate_id,
                by="ann",
                at=now,
            )
        )


def main(url: str, world: str, name: str, crash_at: str) -> None:
    """Walk a scenario in this process, and kill it at a point."""
    left = int(crash_at)

    def point(where: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with Store.open(url) as store:
        walk(store, World(Path(world)), SCENARIOS[name], point)


if __name__ == "__main__":
    main(*sys.argv[1:])
