"""Journal of paid results, so that a resumed run repeats none of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select

from ratchet.store.engine import Database, chunks
from ratchet.store.tables import journal


class Journal:
    """Immutable entries of runs by key, in order of writing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.insert_new(journal, "run_id", "key")

    def append(self, run_id: str, key: str, body: Any, now: float) -> Any:
        """Write an entry unless the key exists; return the stored body.

        Args:
            run_id: The run.
            key: Content key of the operation.
            body: Any JSON value.
            now: Unix seconds.
        """
        row = {"run_id": run_id, "key": key, "body": body, "created_at": now}

        def work(connection: Connection) -> Any:
            connection.execute(self._insert, row)
            return connection.execute(_body(run_id, key)).scalar_one()

        return self._database.write(work)

    def append_all(self, run_id: str, entries: Sequence[tuple[str, Any, float]]) -> dict[str, Any]:
        """Write several entries in one transaction; see `append`.

        Args:
            run_id: The run.
            entries: Key, body and Unix seconds of each; at least one, keys unique.

        Returns:
            The stored bodies, by key.
        """
        rows = [
            {"run_id": run_id, "key": key, "body": body, "created_at": at}
            for key, body, at in entries
        ]

        def work(connection: Connection) -> dict[str, Any]:
            connection.execute(self._insert, rows)
            bodies: dict[str, Any] = {}
            for chunk in chunks([key for key, _, _ in entries]):
                query = select(journal.c.key, journal.c.body)
                query = query.where(journal.c.run_id == run_id, journal.c.key.in_(chunk))
                bodies.update((key, body) for key, body in connection.execute(query))
            return bodies

        return self._database.write(work)

    def get(self, run_id: str, key: str, default: Any = None) -> Any:
        """Return the body of a key, or `default`."""
        row = self._database.read(lambda c: c.execute(_body(run_id, key)).first())
        return default if row is None else row[0]

    def read(self, run_id: str, since: float | None = None) -> list[tuple[str, Any]]:
        """Return the keys and bodies of the run, oldest first: all, or those since a time."""
        query = select(journal.c.key, journal.c.body).where(journal.c.run_id == run_id)
        if since is not None:
            query = query.where(journal.c.created_at >= since)
        query = query.order_by(journal.c.seq)
        return self._database.read(lambda c: [(key, body) for key, body in c.execute(query)])


def _body(run_id: str, key: str) -> Any:
    return select(journal.c.body).where(journal.c.run_id == run_id, journal.c.key == key)
