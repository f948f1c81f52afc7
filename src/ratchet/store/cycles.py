"""Repository of cycles: their moves, and what they used of the day's budget."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, func, insert, select, update

from ratchet.store.columns import encode
from ratchet.store.engine import Database, starts_with
from ratchet.store.outbox import Outbox
from ratchet.store.tables import cycle_spending, cycle_transitions, cycles
from ratchet.types import (
    CYCLE_TRANSITIONS,
    FINAL_CYCLE_STATES,
    Conflict,
    Cycle,
    CycleAction,
    CycleState,
    CycleTransition,
    Spending,
)

_decode = msgspec.json.Decoder(Cycle).decode
_decode_transition = msgspec.json.Decoder(CycleTransition).decode


class Cycles:
    """Cycles by id. An agent has at most one that has not ended."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox
        self._upsert_spending = database.upsert(
            cycle_spending,
            ("agent", "day", "purpose"),
            ("rollouts", "dollars", "requests"),
        )

    def put(
        self,
        cycle: Cycle,
        transition: CycleTransition | None = None,
        actions: Sequence[CycleAction] = (),
        spent: Sequence[tuple[str, str, Spending]] = (),
    ) -> None:
        """Store a cycle's next version with all that belongs to it, in one transaction.

        Args:
            cycle: The cycle; its `version` is the stored one's plus 1, or 1 for a new cycle.
            transition: The move that led to it, if it moved.
            actions: What is to be done because of the move.
            spent: Days, purposes, and what was taken of the day's budget for each in all.

        Raises:
            Conflict: The stored version is another one; or the move is not in
                `CYCLE_TRANSITIONS`; or the agent has another cycle that has not ended.
        """
        body = encode(cycle)
        row = {
            "id": cycle.id,
            "agent": cycle.agent,
            "state": cycle.state,
            "version": cycle.version,
            "body": body,
        }

        def work(connection: Connection) -> None:
            stored = connection.execute(
                select(cycles).where(cycles.c.id == cycle.id).with_for_update()
            ).first()
            if stored is not None and stored.body == body:
                return  # committed already: the answer to the commit was lost
            self._check(connection, stored, cycle, transition)
            if stored is None:
                connection.execute(insert(cycles), row)
            else:
                connection.execute(update(cycles).where(cycles.c.id == cycle.id).values(row))
            if transition is not None:
                move = {
                    "cycle_id": cycle.id,
                    "number": transition.number,
                    "body": encode(transition),
                }
                connection.execute(insert(cycle_transitions), move)
            self._outbox.add(connection, actions)
            for day, purpose, spending in spent:
                amounts = msgspec.structs.asdict(spending)
                key = {"agent": cycle.agent, "day": day, "purpose": f"{cycle.id}/{purpose}"}
                connection.execute(self._upsert_spending, {**key, **amounts})

        self._database.write(work)

    def _check(
        self, connection: Connection, stored: Any, cycle: Cycle, transition: CycleTransition | None
    ) -> None:
        before: CycleState = "idle" if stored is None else stored.state
        version = 0 if stored is None else stored.version
        if cycle.version != version + 1:
            raise Conflict(
                f"Cycle {cycle.id[:12]} is at version {version}, not {cycle.version - 1}: another "
                "process has moved it.",
                hint="Read the cycle again.",
            )
        if transition is None and before == cycle.state:
            return
        stated = transition and (transition.source, transition.target)
        if stated != (before, cycle.state) or cycle.state not in CYCLE_TRANSITIONS[before]:
            allowed = ", ".join(sorted(CYCLE_TRANSITIONS[before])) or "nothing"
            raise Conflict(
                f"Cycle {cycle.id[:12]} is at {before!r} and cannot go to {cycle.state!r};"
                f" allowed next: {allowed}."
            )
        if stored is None:
            other_id = connection.execute(
                select(cycles.c.id).where(cycles.c.agent == cycle.agent, ~_ended()).limit(1)
            ).scalar()
            if other_id is not None:
                raise Conflict(
                    f"{cycle.agent} has another cycle that has not ended, {other_id[:12]}.",
                    hint="Let it end, or end it: ratchet autopilot stop.",
                )

    def underway(self, agent: str) -> Cycle | None:
        """Return the agent's cycle that has not ended, or None."""
        mine = select(cycles.c.body).where(cycles.c.agent == agent, ~_ended())
        newest = self._select(mine.order_by(cycles.c.seq.desc()).limit(1))
        return newest[0] if newest else None

    def get(self, id: str) -> Cycle | None:
        """Return a cycle, or None."""
        matches = self._select(select(cycles.c.body).where(cycles.c.id == id))
        return matches[0] if matches else None

    def find(self, prefix: str) -> builtins.list[Cycle]:
        """Find cycles by id prefix, oldest first, at most a hundred."""
        query = select(cycles.c.body).where(starts_with(cycles.c.id, prefix))
        return self._select(query.order_by(cycles.c.seq).limit(100))

    def list(self, agent: str | None = None, limit: int = 100) -> builtins.list[Cycle]:
        """List the newest cycles, of one agent or of all, newest first."""
        query = select(cycles.c.body)
        if agent is not None:
            query = query.where(cycles.c.agent == agent)
        return self._select(query.order_by(cycles.c.seq.desc()).limit(limit))

    def transitions(self, id: str) -> builtins.list[CycleTransition]:
        """Return a cycle's moves, oldest first."""
        query = (
            select(cycle_transitions.c.body)
            .where(cycle_transitions.c.cycle_id == id)
            .order_by(cycle_transitions.c.number)
        )
        rows = self._database.read(lambda c: c.execute(query).scalars().all())
        return [_decode_transition(body) for body in rows]

    def spend(self, agent: str, day: str, purpose: str, spending: Spending) -> None:
        """Store spending from a day's budget for a purpose that is not a move of a cycle.

        Args:
            agent: The agent.
            day: The day, YYYY-MM-DD.
            purpose: What it was taken for.
            spending: What was taken for it in all.
        """
        row = {"agent": agent, "day": day, "purpose": purpose, **msgspec.structs.asdict(spending)}
        self._database.write(lambda connection: connection.execute(self._upsert_spending, row))

    def spent(self, agent: str, day: str) -> Spending:
        """Return what an agent's cycles spent of a day's budget.

        Args:
            agent: The agent.
            day: The day, YYYY-MM-DD.
        """
        columns = [func.coalesce(func.sum(cycle_spending.c[name]), 0) for name in _AMOUNTS]
        query = select(*columns).where(cycle_spending.c.agent == agent, cycle_spending.c.day == day)
        row = self._database.read(lambda c: c.execute(query).one())
        return Spending(rollouts=int(row[0]), dollars=float(row[1]), requests=int(row[2]))

    def _select(self, query: Any) -> builtins.list[Cycle]:
        rows = self._database.read(lambda c: c.execute(query).scalars().all())
        return [_decode(body) for body in rows]


_AMOUNTS = ("rollouts", "dollars", "requests")


def _ended() -> Any:
    return cycles.c.state.in_(sorted(FINAL_CYCLE_STATES))
