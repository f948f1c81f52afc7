"""Settings shared by all servers of a store."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, select

from ratchet.store.engine import Database
from ratchet.store.tables import settings


class Settings:
    """Values by name; each is created once, by the first server that needs it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.insert_new(settings, "name")

    def get_or_create(self, name: str, make: Callable[[], str]) -> str:
        """Return the value of a name, creating it if needed; all callers get the same value.

        Args:
            name: The name.
            make: Creates the value; discarded if another process was first.
        """
        query = select(settings.c.value).where(settings.c.name == name)
        setting = self._database.read(lambda c: c.execute(query).scalar())
        if setting is not None:
            return str(setting)
        row = {"name": name, "value": make()}

        def work(connection: Connection) -> str:
            connection.execute(self._insert, row)
            return str(connection.execute(query).scalar_one())

        return self._database.write(work)
