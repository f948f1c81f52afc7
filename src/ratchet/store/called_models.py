"""Repository of the models that agents called recently, as their spans recorded them."""

from __future__ import annotations

import builtins
from typing import NamedTuple

from sqlalchemy import Connection, select

from ratchet.store.engine import Database
from ratchet.store.tables import spans
from ratchet.store.usage import used_by
from ratchet.types.trace import OWN_AGENTS

MAX_CALLS_READ = 2_000
"""Maximum number of calls examined, the newest first; 2,000 are read in 12 ms."""


class CalledModel(NamedTuple):
    """A model that an agent called."""

    agent: str
    """The live agent; empty for calls of rollouts."""
    model: str
    """As the agent asked for it; as the answer named it if the request is unknown."""
    provider: str
    last_ns: int
    """When it was called last, Unix time in nanoseconds."""


class CalledModels:
    """Models of recorded calls."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, since_ns: int = 0) -> builtins.list[CalledModel]:
        """List the models of the newest calls, the last called first, without Ratchet's own.

        Args:
            since_ns: Only of calls that began at or after this Unix time in nanoseconds.
        """

        def work(connection: Connection) -> builtins.list[CalledModel]:
            query = (
                select(spans.c.seq, spans.c.agent, spans.c.usage, spans.c.start_ns)
                .where(spans.c.usage > "", spans.c.start_ns >= since_ns)
                .order_by(spans.c.seq.desc())
                .limit(MAX_CALLS_READ)
            )
            last: dict[tuple[str, str, str], tuple[int, int]] = {}
            for row in connection.execute(query):
                call = used_by("", None, row.usage).call
                if call.model and row.agent not in OWN_AGENTS:
                    key = (row.agent, call.model, call.provider)
                    last.setdefault(key, (row.seq, row.start_ns))
            asked = _asked(connection, [seq for seq, _ in last.values()])
            return [
                CalledModel(agent, asked.get(seq) or model, provider, start_ns)
                for (agent, model, provider), (seq, start_ns) in last.items()
            ]

        return self._database.read(work)


def _asked(connection: Connection, numbers: builtins.list[int]) -> dict[int, str]:
    """The models that were asked for according to these spans."""
    query = select(spans.c.seq, spans.c.attributes).where(spans.c.seq.in_(numbers))
    asked = {}
    for row in connection.execute(query):
        model = row.attributes.get("gen_ai.request.model")
        if isinstance(model, str):
            asked[row.seq] = model
    return asked
