"""Event log: notifies watchers of changes; the stored objects remain authoritative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import func, insert, select

from ratchet.store.columns import decode, encode
from ratchet.store.engine import Database
from ratchet.store.tables import events


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A change notification."""

    seq: int
    kind: str
    """Type and change, such as `rollouts.finished`."""
    at: float
    """Unix seconds."""
    body: Any
    """Ids and counts of the changed objects."""


class Events:
    """A log that servers append to and event streams read. Pruned early."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, items: Sequence[tuple[str, Any]], now: float) -> None:
        """Append events, each a kind and a body."""
        rows = [{"kind": kind, "at": now, "body": encode(body)} for kind, body in items]
        if rows:
            self._database.write(lambda c: c.execute(insert(events), rows))

    def newest(self) -> int:
        """Number of the last event, 0 if there is none."""
        query = select(func.max(events.c.seq))
        return self._database.read(lambda c: c.execute(query).scalar()) or 0

    def after(self, seq: int, limit: int = 500) -> list[Event]:
        """Return events with a higher number, oldest first.

        On Postgres a number may become visible after a higher one, so readers must look back a
        little.
        """
        query = select(events).where(events.c.seq > seq).order_by(events.c.seq).limit(limit)
        return self._database.read(
            lambda c: [
                Event(seq=row.seq, kind=row.kind, at=row.at, body=decode(row.body))
                for row in c.execute(query)
            ]
        )
