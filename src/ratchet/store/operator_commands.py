"""Repository of the commands that people gave the autopilot."""

from __future__ import annotations

import builtins

import msgspec
from sqlalchemy import insert, select

from ratchet.store.columns import encode
from ratchet.store.engine import Database
from ratchet.store.tables import operator_commands
from ratchet.types import OperatorCommand

_decode = msgspec.json.Decoder(OperatorCommand).decode


class OperatorCommands:
    """Commands by agent; append-only, so they are also the record of who did what."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, command: OperatorCommand) -> None:
        """Append a command."""
        row = {
            "agent": command.agent,
            "verb": command.verb,
            "cycle_id": command.cycle_id,
            "body": encode(command),
        }
        self._database.write(lambda c: c.execute(insert(operator_commands), row))

    def list(self, agent: str, limit: int = 1000) -> builtins.list[OperatorCommand]:
        """Return the commands about an agent, newest first."""
        query = (
            select(operator_commands.c.body)
            .where(operator_commands.c.agent == agent)
            .order_by(operator_commands.c.seq.desc())
            .limit(limit)
        )
        rows = self._database.read(lambda c: c.execute(query).scalars().all())
        return [_decode(body) for body in rows]

    def pause(self, agent: str) -> OperatorCommand | None:
        """Return the command that paused the autopilot, or None if it is not paused."""
        newest = next((c for c in self.list(agent) if c.verb in ("pause", "resume")), None)
        return newest if newest is not None and newest.verb == "pause" else None

    def about(self, cycle_id: str) -> builtins.list[OperatorCommand]:
        """Return the commands about a cycle, oldest first."""
        mine = operator_commands.c.cycle_id == cycle_id
        query = select(operator_commands.c.body).where(mine).order_by(operator_commands.c.seq)
        rows = self._database.read(lambda c: c.execute(query).scalars().all())
        return [_decode(body) for body in rows]
