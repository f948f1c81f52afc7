"""Repository of agents' settings and activations."""

from __future__ import annotations

import builtins

import msgspec
from sqlalchemy import Connection, insert, select

from ratchet.store.columns import clean, encode
from ratchet.store.engine import Database
from ratchet.store.tables import activations, agents
from ratchet.types import Activation, AgentSettings

_decode = msgspec.json.Decoder(AgentSettings).decode


class Agents:
    """Settings and activations by agent. An agent without settings has the defaults."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upsert = database.upsert(agents, ("name",), ("body", "updated_at"))

    def settings(self, name: str) -> AgentSettings:
        """Return the agent's settings."""
        query = select(agents.c.body).where(agents.c.name == name)
        body = self._database.read(lambda c: c.execute(query).scalar())
        return AgentSettings(name=name) if body is None else _decode(body)

    def put(self, settings: AgentSettings, now: float) -> None:
        """Store an agent's settings, effective from now (Unix seconds)."""
        row = {"name": settings.name, "body": encode(settings), "updated_at": now}
        self._database.write(lambda c: c.execute(self._upsert, row))

    def list(self) -> builtins.list[AgentSettings]:
        """List the settings of every agent that has any or was activated, by name."""

        def work(connection: Connection) -> builtins.list[AgentSettings]:
            settings_by_name = {
                row.name: _decode(row.body) for row in connection.execute(select(agents))
            }
            for name in connection.scalars(select(activations.c.agent).distinct()):
                settings_by_name.setdefault(name, AgentSettings(name=name))
            return [settings_by_name[name] for name in sorted(settings_by_name)]

        return self._database.read(work)

    def active(self, name: str) -> Activation | None:
        """Return the newest activation, or None if the agent runs its own source."""
        newest = self.history(name, limit=1)
        return newest[0] if newest and newest[0].candidate_id else None

    def activate(self, activation: Activation) -> None:
        """Make a candidate active for an agent; activating the same one again changes nothing.

        The candidate must be stored. An empty `candidate_id` returns to the agent's own source.
        """
        row = msgspec.structs.asdict(activation)

        def work(connection: Connection) -> None:
            newest = (
                select(activations.c.candidate_id)
                .where(activations.c.agent == clean(activation.agent))
                .order_by(activations.c.seq.desc())
                .limit(1)
            )
            if connection.execute(newest).scalar() != activation.candidate_id:
                connection.execute(insert(activations), row)

        self._database.write(work)

    def history(self, name: str, limit: int = 100) -> builtins.list[Activation]:
        """List an agent's activations, newest first."""
        query = (
            select(activations)
            .where(activations.c.agent == name)
            .order_by(activations.c.seq.desc())
            .limit(limit)
        )
        return self._database.read(
            lambda c: [
                Activation(
                    agent=row.agent,
                    candidate_id=row.candidate_id,
                    activated_at=row.activated_at,
                    reason=row.reason,
                )
                for row in c.execute(query)
            ]
        )
