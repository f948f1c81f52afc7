"""The state machine of cycles: begins a cycle, applies its state's rule, and stores the move.

A tick looks once, moves at most once, and stores the move with the actions that it asks for in one
transaction. So a cycle can be killed at any moment: what was not stored did not happen, and what
was stored goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ratchet.autopilot.config import Config
from ratchet.autopilot.cycle.moves import AUTOPILOT, Move, Order, Stay, Step
from ratchet.autopilot.cycle.parts import Parts
from ratchet.autopilot.cycle.performing import MAX_RETRY_WAIT_S, MIN_RETRY_WAIT_S, TOLD_AFTER
from ratchet.autopilot.cycle.policy import (
    Wait,
    day_of,
    may_learn,
)
from ratchet.autopilot.cycle.rules import StateRules
from ratchet.store import Store
from ratchet.types import (
    Activation,
    Cycle,
    CycleAction,
    CycleState,
    CycleTransition,
    LeaseLost,
    RatchetError,
    content_hash,
)
from ratchet.types.cycle import DAY_S

_log = logging.getLogger("ratchet")


class CycleMachine:
    """Moves the cycles of one agent.

    Args:
        agent: The agent's name.
        config: The project's configuration.
        store: Its store; writes carry the caller's fencing token, if it holds one.
        parts: What measures and acts.
        clock: Unix seconds.
    """

    def __init__(
        self,
        agent: str,
        config: Config,
        store: Store,
        parts: Parts,
        clock: Callable[[], float],
    ) -> None:
        self.agent = agent
        self.config = config
        self.policy = config.autopilot
        self.store = store
        self.parts = parts
        self.clock = clock
        self.rules = StateRules(agent, config, store, parts, clock)
        self._rests = 0
        """Version of the cycle that this process does not look at before `waits_until`."""

    async def step(self) -> Cycle | None:
        """Look once at the cycle under way, or for a reason to begin one.

        Returns:
            The cycle as it is now; None when there is none.

        Raises:
            Conflict: Another process leads.
            RatchetError: A state's work failed; the next step tries it again.
        """
        cycle = self.store.cycles.underway(self.agent)
        if cycle is None:
            return await self._begin()
        step: Step | None = self.rules.told(cycle) or self.rules.overdue(cycle)
        if step is None:
            if self._rests == cycle.version and self.clock() < (cycle.waits_until or 0.0):
                return cycle
            step = await self._look(cycle)
        after = self._apply(cycle, step)
        # A canary that may not take its next step is measured all the same.
        if not isinstance(step, Move) and cycle.state not in ("canary", "watch"):
            self._rests = after.version
        return after

    async def _look(self, cycle: Cycle) -> Step:
        """Apply the state's rule; after a failure, wait, and tell a person once."""
        try:
            return await self.rules.look(cycle)
        except LeaseLost:
            raise
        except RatchetError as error:
            why, at = str(error), getattr(error, "retry_at", None)
        except Exception as error:
            _log.exception("The state %s of cycle %s failed.", cycle.state, cycle.id[:12])
            why, at = f"{type(error).__name__}: {error}", None
        failures = cycle.failures + 1
        until = self.clock() + min(
            MAX_RETRY_WAIT_S, MIN_RETRY_WAIT_S * 2.0 ** min(cycle.failures, 20)
        )
        wait = Wait(why, until if at is None else at)
        if failures != TOLD_AFTER:
            return Stay(changes={"failures": failures}, wait=wait)
        text = f"The state {cycle.state} keeps failing and will be tried again: {why}"
        notifications: tuple[Order, ...] = (("notify", {"event": "failing", "text": text}),)
        return Stay(changes={"failures": failures}, wait=wait, actions=notifications)

    # ---- beginning

    async def _begin(self) -> Cycle | None:
        now = self.clock()
        last = next(iter(self.store.cycles.list(self.agent, limit=1)), None)
        foreign = self._foreign_release()
        if foreign is not None:
            return foreign
        if self.store.operator_commands.pause(self.agent) is not None:
            return None
        cooled = 0.0 if last is None else last.updated_at + 3600 * self.policy.cooldown_hours
        if now < cooled or may_learn(self.policy, self.rules.spent(), now) is not None:
            return None
        noticed = await self.parts.noticed(0.0 if last is None else last.updated_at)
        if noticed is None:
            return None
        rule = "Live traces call for an improvement."
        return self._new("capture", noticed.sentence, rule, problem_id=noticed.problem_id)

    def _foreign_release(self) -> Cycle | None:
        """A watch of the release in effect, if no cycle made it and none watches it."""
        active = self.parts.active()
        if active is None or self.clock() - active.activated_at > DAY_S * self.config.watch.days:
            return None
        for cycle in self.store.cycles.list(self.agent):
            mine = cycle.candidate_id == active.candidate_id or cycle.state == "quarantined"
            if mine and cycle.started_at <= active.activated_at <= cycle.updated_at:
                return None  # released, watched or restored by that cycle
            if cycle.trigger == _trigger(active):
                return None
        rule = "A release was made that is not watched yet."
        return self._new("watch", _trigger(active), rule, candidate_id=active.candidate_id)

    def _new(self, target: CycleState, trigger: str, rule: str, **fields: Any) -> Cycle:
        now = self.clock()
        cycle = Cycle(
            id=content_hash(["cycle", self.agent, trigger, now]),
            agent=self.agent,
            state=target,
            trigger=trigger,
            started_at=now,
            entered_at=now,
            updated_at=now,
            **fields,
        )
        move = _transition(cycle, "idle", 1, rule, [trigger], AUTOPILOT, now)
        self.store.cycles.put(cycle, move)
        return cycle

    # ---- storing

    def _apply(self, cycle: Cycle, step: Step) -> Cycle:
        now = self.clock()
        if isinstance(step, Wait):
            step = Stay(changes={}, wait=step)
        number = len(self.store.cycles.transitions(cycle.id)) + 1
        fields: dict[str, Any] = {"failures": 0, "waits": "", "waits_until": None}
        if isinstance(step, Move):
            fields |= {"state": step.target, "entered_at": now, "held_at": None}
        else:
            fields |= {"waits": step.wait.why, "waits_until": step.wait.until}
        fields |= step.changes
        if isinstance(step, Move) and step.target != cycle.state:
            fields["progress"] = {}  # of no use to the next stage; what it rests on is journaled
        after = msgspec.structs.replace(cycle, **fields)
        if after == cycle:
            return cycle
        after = msgspec.structs.replace(after, version=cycle.version + 1, updated_at=now)
        move = None
        if isinstance(step, Move):
            inputs = [step.rule, msgspec.to_builtins(step.changes)]
            move = _transition(after, cycle.state, number, step.rule, inputs, step.actor, now)
        actions = [
            CycleAction(
                key=f"{cycle.id}/{after.version}/{place}/{kind}",
                cycle_id=cycle.id,
                kind=kind,
                body=body,
                next_at=now,
            )
            for place, (kind, body) in enumerate(step.actions)
        ]
        days = [
            (day_of(self.policy, spent.at), spent.purpose, spent.amount) for spent in step.spent
        ]
        self.store.cycles.put(after, move, actions, days)
        return after


def _trigger(active: Activation) -> str:
    when = datetime.fromtimestamp(active.activated_at, UTC)
    return (
        f"Candidate {active.candidate_id[:12]} was made active at {when:%Y-%m-%d %H:%M:%S} UTC:"
        f" {active.reason or 'no reason given'}"
    )


def _transition(
    cycle: Cycle,
    source: CycleState,
    number: int,
    rule: str,
    inputs: Sequence[Any],
    actor: str,
    now: float,
) -> CycleTransition:
    return CycleTransition(
        cycle_id=cycle.id,
        number=number,
        source=source,
        target=cycle.state,
        rule=rule,
        inputs=content_hash(inputs),
        actor=actor,
        at=now,
    )
