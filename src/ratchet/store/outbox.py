"""Repository of cycles' actions: stored with the move that requests them, carried out
afterwards."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, select, update

from ratchet.store.columns import encode
from ratchet.store.engine import Database
from ratchet.store.tables import cycle_actions, cycles
from ratchet.types import CycleAction, InputError

_decode = msgspec.json.Decoder(CycleAction).decode


class Outbox:
    """Actions by idempotency key, in the order in which they were requested."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.insert_new(cycle_actions, "key")

    def add(self, connection: Connection, actions: Sequence[CycleAction]) -> None:
        """Store actions in the caller's transaction; existing keys are left unchanged."""
        if actions:
            connection.execute(self._insert, [_row(action) for action in actions])

    def put(self, action: CycleAction, also: Sequence[CycleAction] = ()) -> None:
        """Update an action, and store others that follow from it.

        Raises:
            InputError: There is no entry with this key.
        """
        query = update(cycle_actions).where(cycle_actions.c.key == action.key).values(_row(action))

        def work(connection: Connection) -> int:
            self.add(connection, also)
            return connection.execute(query).rowcount

        if not self._database.write(work):
            raise InputError(f"There is no action {action.key!r}.")

    def get(self, key: str) -> CycleAction | None:
        """Return an action, or None."""
        matches = self._select(select(cycle_actions.c.body).where(cycle_actions.c.key == key))
        return matches[0] if matches else None

    def list(self, cycle_id: str) -> builtins.list[CycleAction]:
        """Return a cycle's actions, oldest first."""
        mine = cycle_actions.c.cycle_id == cycle_id
        return self._select(select(cycle_actions.c.body).where(mine).order_by(cycle_actions.c.seq))

    def unfinished(self, agent: str) -> builtins.list[CycleAction]:
        """Return the unfinished actions of an agent's cycles, oldest first."""
        query = (
            select(cycle_actions.c.body)
            .join_from(cycle_actions, cycles, cycles.c.id == cycle_actions.c.cycle_id)
            .where(cycles.c.agent == agent, cycle_actions.c.state.in_(("pending", "started")))
            .order_by(cycle_actions.c.seq)
            .limit(1000)
        )
        return self._select(query)

    def _select(self, query: Any) -> builtins.list[CycleAction]:
        rows = self._database.read(lambda c: c.execute(query).scalars().all())
        return [_decode(body) for body in rows]


def _row(action: CycleAction) -> dict[str, Any]:
    return {
        "key": action.key,
        "cycle_id": action.cycle_id,
        "state": action.state,
        "next_at": action.next_at,
        "body": encode(action),
    }
