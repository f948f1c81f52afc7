"""Base of repositories that store whole structs as JSON and validate updates."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec
from sqlalchemy import Connection, Table, select, update

from ratchet.store.columns import encode
from ratchet.store.engine import Database, starts_with

Noun = TypeVar("Noun", bound=msgspec.Struct)


class NounRepository(ABC, Generic[Noun]):
    """Stores structs as JSON, with a few columns for searching."""

    table: Table
    kind: type[Noun]

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.insert_new(self.table, "id")
        self._decode = msgspec.json.Decoder(self.kind).decode

    @abstractmethod
    def _columns(self, noun: Noun) -> dict[str, Any]:
        """Return the values of the searched columns, including `id`."""

    @abstractmethod
    def _check(self, before: Noun, after: Noun) -> None:
        """Raise Conflict when `before` must not be replaced by `after`."""

    def put(self, noun: Noun) -> None:
        """Insert or update.

        Raises:
            Conflict: The stored struct must not be replaced by this one.
        """
        columns = {**self._columns(noun), "body": encode(noun)}
        mine = self.table.c.id == columns["id"]

        def work(connection: Connection) -> None:
            if connection.execute(self._insert, columns).rowcount:
                return
            stored = select(self.table.c.body).where(mine).with_for_update()
            self._check(self._decode(connection.execute(stored).scalar_one()), noun)
            connection.execute(update(self.table).where(mine).values(columns))

        self._database.write(work)

    def get(self, id: str) -> Noun | None:
        """Return the struct with an id, or None."""
        matches = self._select(select(self.table.c.body).where(self.table.c.id == id))
        return matches[0] if matches else None

    def find(self, prefix: str) -> builtins.list[Noun]:
        """Find structs by id prefix, oldest first, at most a hundred."""
        condition = starts_with(self.table.c.id, prefix)
        return self._select(
            select(self.table.c.body).where(condition).order_by(self.table.c.seq).limit(100)
        )

    def list(self, limit: int = 100) -> builtins.list[Noun]:
        """List up to `limit` structs, newest first."""
        newest = select(self.table.c.body).order_by(*self._newest_first())
        return self._select(newest.limit(limit))

    def latest(self) -> Noun | None:
        """Return the newest, or None if there is none."""
        newest = self.list(1)
        return newest[0] if newest else None

    def _newest_first(self) -> Sequence[Any]:
        return (self.table.c.seq.desc(),)

    def _select(self, query: Any) -> builtins.list[Noun]:
        rows = self._database.read(lambda connection: connection.execute(query).scalars().all())
        return [self._decode(body) for body in rows]
