"""Events: hints that something changed, for those who watch; the nouns themselves are the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import func, insert, select

from ratchet.store.columns import decode, encode
from ratchet.store.engine import Database
from ratchet.store.tables import events


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that changed."""

    seq: int
    kind: str
    """Noun and what happened to it, such as `rollouts.finished`."""
    at: float
    """Unix seconds."""
    body: Any
    """What it is about: ids, counts."""


class Events:
    """A log that servers append to and streams read from. It is pruned soon."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, items: Sequence[tuple[str, Any]], now: float) -> None:
        """Append events of a kind with a body."""
        rows = [{"kind": kind, "at": now, "body": encode(body)} for kind, body in items]
        if rows:
            self._database.write(lambda c: c.execute(insert(events), rows))

    def newest(self) -> int:
        """The number of the last event, 0 when there is none."""
        query = select(func.max(events.c.seq))
        return self._database.read(lambda c: c.execute(query).scalar()) or 0

    def after(self, seq: int, limit: int = 500) -> list[Event]:
        """Events with a higher number, oldest first.

        On Postgres a number may become visible after a higher one: whoever follows the log looks
        back a little.
        """
        query = select(events).where(events.c.seq > seq).order_by(events.c.seq).limit(limit)
        return self._database.read(
            lambda c: [
                Event(seq=row.seq, kind=row.kind, at=row.at, body=decode(row.body))
                for row in c.execute(query)
            ]
        )
