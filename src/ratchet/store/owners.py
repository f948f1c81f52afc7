"""Owners: the agents that rollouts, traces and conversations belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from ratchet.store.columns import clean
from ratchet.store.conversations import spans_of_conversation
from ratchet.store.engine import Database, chunks
from ratchet.store.tables import rollouts, spans

_OWNER: ColumnElement[str] = func.coalesce(rollouts.c.queue, spans.c.agent)
_ITS_ROLLOUT = rollouts.c.seq == spans.c.rollout_seq


class Owners:
    """Names of live agents; for rollouts, of their queues."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_rollouts(self, ids: Sequence[str]) -> set[str]:
        """Queues of rollouts; unknown ids are omitted."""

        def work(connection: Connection) -> set[str]:
            owners: set[str] = set()
            for chunk in chunks(sorted({clean(id) for id in ids})):
                query = select(rollouts.c.queue).where(rollouts.c.id.in_(chunk)).distinct()
                owners.update(connection.scalars(query))
            return owners

        return self._database.read(work)

    def of_trace(self, id: str) -> set[str]:
        """Owners of the spans of a trace; none if it is unknown."""
        return self._of(select(_OWNER).where(spans.c.trace_id == clean(id)).select_from(spans))

    def of_conversation(self, id: str) -> set[str]:
        """Owners of the spans of a conversation's traces; none if it is unknown."""
        return self._of(spans_of_conversation(clean(id), _OWNER))

    def _of(self, query: Any) -> set[str]:
        query = query.outerjoin(rollouts, _ITS_ROLLOUT).distinct()
        return self._database.read(lambda c: set(c.scalars(query)))
