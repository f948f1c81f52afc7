"""Agents: how a server treats them, and which candidate they run with outside of rollouts."""

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
    """Settings and activations by agent. An agent that nobody configured has the defaults."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upsert = database.upsert(agents, ("name",), ("body", "updated_at"))

    def settings(self, name: str) -> AgentSettings:
        """How the agent is treated."""
        query = select(agents.c.body).where(agents.c.name == name)
        body = self._database.read(lambda c: c.execute(query).scalar())
        return AgentSettings(name=name) if body is None else _decode(body)

    def put(self, settings: AgentSettings, now: float) -> None:
        """Store how an agent is treated, from now (unix seconds) on."""
        row = {"name": settings.name, "body": encode(settings), "updated_at": now}
        self._database.write(lambda c: c.execute(self._upsert, row))

    def list(self) -> builtins.list[AgentSettings]:
        """Every agent that has settings or was activated, by name."""

        def work(connection: Connection) -> builtins.list[AgentSettings]:
            known = {row.name: _decode(row.body) for row in connection.execute(select(agents))}
            for name in connection.scalars(select(activations.c.agent).distinct()):
                known.setdefault(name, AgentSettings(name=name))
            return [known[name] for name in sorted(known)]

        return self._database.read(work)

    def active(self, name: str) -> Activation | None:
        """The activation that holds, or None when the agent runs as its source stands."""
        found = self.history(name, limit=1)
        return found[0] if found and found[0].candidate_id else None

    def activate(self, activation: Activation) -> None:
        """Make a candidate an agent's active one; the same again changes nothing.

        The candidate must be stored. An empty `candidate_id` goes back to the agent's source.
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
        """Activations of an agent, the newest first."""
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
