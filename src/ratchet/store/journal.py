"""Journal: what a run has paid for, so that it is never done twice."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from ratchet.store.engine import Database
from ratchet.store.tables import journal


class Journal:
    """Entries of runs by key, in the order they were written; never changed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.insert_new(journal, "run_id", "key")

    def append(self, run_id: str, key: str, body: Any, now: float) -> Any:
        """Write an entry unless the key has one; return the body that is stored.

        Args:
            run_id: The run.
            key: Content key of what was done.
            body: Any JSON value.
            now: Unix seconds.
        """
        row = {"run_id": run_id, "key": key, "body": body, "created_at": now}

        def work(connection: Connection) -> Any:
            connection.execute(self._insert, row)
            return connection.execute(_body(run_id, key)).scalar_one()

        return self._database.write(work)

    def get(self, run_id: str, key: str, default: Any = None) -> Any:
        """The body under that key, or `default`."""
        found = self._database.read(lambda c: c.execute(_body(run_id, key)).first())
        return default if found is None else found[0]

    def read(self, run_id: str) -> list[tuple[str, Any]]:
        """Every key and body of the run, oldest first."""
        query = (
            select(journal.c.key, journal.c.body)
            .where(journal.c.run_id == run_id)
            .order_by(journal.c.seq)
        )
        return self._database.read(lambda c: [(key, body) for key, body in c.execute(query)])


def _body(run_id: str, key: str) -> Any:
    return select(journal.c.body).where(journal.c.run_id == run_id, journal.c.key == key)
