"""Moves of a cycle: what a rule may answer, and the moves that end a cycle early."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from ratchet.autopilot.cycle.policy import Wait
from ratchet.types import ActionKind, Cycle, CycleState, Spending

AUTOPILOT = "autopilot"
"""The actor of moves that no person made."""

WORKS = Wait("")
"""Nothing to wait for: the state's own work goes on."""

Order: TypeAlias = tuple[ActionKind, dict[str, Any]]
"""An action that a step asks for: its kind and its body."""


class Taken(msgspec.Struct, frozen=True):
    """How much of a day's budget has been taken for one purpose in total."""

    purpose: str
    amount: Spending
    at: float
    """When the budget was taken, in Unix seconds: it counts for that day."""


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A move that a state's rule allows."""

    target: CycleState
    rule: str
    """Why, in one sentence."""
    changes: dict[str, Any] = {}
    """New values of the cycle's fields."""
    actions: tuple[Order, ...] = ()
    spent: tuple[Taken, ...] = ()
    actor: str = AUTOPILOT


class Stay(msgspec.Struct, frozen=True, kw_only=True):
    """The cycle stays in its state: its work went on, or waits."""

    changes: dict[str, Any]
    spent: tuple[Taken, ...] = ()
    wait: Wait = WORKS
    actions: tuple[Order, ...] = ()


Step = Move | Stay | Wait


def drop(cycle: Cycle, rule: str, **changes: Any) -> Move:
    """The end of a cycle that ships nothing."""
    return Move(
        target="dropped",
        rule=rule,
        changes={"message": rule, **changes},
        actions=cleanup(cycle, rule),
    )


def hold(cycle: Cycle, rule: str, **changes: Any) -> Move:
    """Keep what is not proved until a person has looked at it."""
    ends = cleanup(cycle, rule) if cycle.state == "canary" else ()
    text = f"Held at {cycle.state.replace('_', ' ')}: {rule}"
    return Move(
        target="held",
        rule=rule,
        changes={"held_at": cycle.state, **changes},
        actions=(*ends, ("notify", {"event": "held", "text": text})),
    )


def back(rule: str, cycle: Cycle, *, actor: str = AUTOPILOT, **changes: Any) -> Move:
    """Undo what the cycle released."""
    actions: list[Order] = []
    if cycle.state == "canary":
        actions.append(("split", {"enrolled": 0.0}))
    elif cycle.request:
        actions.append(("revert", {"why": rule}))
    else:
        actions.append(("deactivate", {"candidate_id": cycle.candidate_id, "why": rule}))
    actions.append(("notify", {"event": "rollback", "text": f"Rolled back: {rule}"}))
    return Move(
        target="rollback",
        rule=rule,
        changes={"message": rule, **changes},
        actions=tuple(actions),
        actor=actor,
    )


def cleanup(cycle: Cycle, why: str) -> tuple[Order, ...]:
    """What must not be left behind when a cycle ends early."""
    where = cycle.held_at or cycle.state
    if where == "canary" and cycle.held_at is None:
        return (("split", {"enrolled": 0.0}),)
    if where == "pull_request":
        return (("close_request", {"why": why}),)
    return ()
