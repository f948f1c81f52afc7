"""Empty stores on Postgres: a database is emptied and used again, since making one takes 0.3 s."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import psycopg
from psycopg import sql

from ratchet.store import Store

SCHEMA = """
SELECT md5(string_agg(
    concat_ws(' ', oid, relname, relkind, relnatts, relchecks, relhastriggers, relpartbound),
    ',' ORDER BY oid
))
FROM pg_class WHERE relnamespace = 'public'::regnamespace
"""
"""What a test changes that makes, drops or alters a table, an index or a partition."""

ROWS = """
SELECT relname FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'ratchet_version'
"""

SEQUENCES = """
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'S'
"""


class PostgresDatabases:
    """Databases that hold an empty store each.

    Each test gets a name that was never used before: a process that outlives its test does not
    reach the store of the next one.

    Args:
        url_of: URL on the server by name of a database.
        template: Name for the database that the others are copied from.
    """

    def __init__(self, url_of: Callable[[str], str], template: str) -> None:
        self._url_of = url_of
        self._template = template
        self._free: list[str] = []
        self._admin = psycopg.connect(url_of("postgres"), autocommit=True)
        self._run("CREATE DATABASE {}", template)
        Store.open(url_of(template)).close()
        with psycopg.connect(url_of(template), autocommit=True) as connection:
            self._empty = _content(connection)
            rows = [name for (name,) in connection.execute(ROWS)]
            sequences = [name for (name,) in connection.execute(SEQUENCES)]
        statements = [
            # Foreign keys are not looked at: every row goes.
            sql.SQL("SET session_replication_role = replica"),
            *(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)) for name in rows),
            *(sql.SQL("ALTER SEQUENCE {} RESTART").format(sql.Identifier(s)) for s in sequences),
        ]
        self._clear = sql.SQL("; ").join(statements)

    def take(self) -> tuple[str, str]:
        """Name and URL of an empty store."""
        name = f"test_{uuid.uuid4().hex}"
        if self._free:
            self._run("ALTER DATABASE {} RENAME TO {}", self._free.pop(), name)
        else:
            self._run("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, self._template)
        return name, self._url_of(name)

    def give_back(self, name: str) -> None:
        """Empty a store; one whose schema was changed is deleted.

        It loses its name first: what outlives the test connects again, and would write into it
        while it is emptied or after.
        """
        self._run("ALTER DATABASE {} WITH ALLOW_CONNECTIONS false", name)
        self._admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        free = f"free_{uuid.uuid4().hex}"
        self._run("ALTER DATABASE {} RENAME TO {}", name, free)
        self._run("ALTER DATABASE {} WITH ALLOW_CONNECTIONS true", free)
        with psycopg.connect(self._url_of(free), autocommit=True) as connection:
            same = _content(connection) == self._empty
            if same:
                connection.execute(self._clear)
        if same:
            self._free.append(free)
        else:
            self._run("DROP DATABASE {} WITH (FORCE)", free)

    def close(self) -> None:
        """Delete all that nobody has."""
        for name in (*self._free, self._template):
            self._run("DROP DATABASE {} WITH (FORCE)", name)
        self._admin.close()

    def _run(self, statement: str, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _content(connection: psycopg.Connection) -> tuple[object, ...]:
    """The schema and its version."""
    (schema,) = connection.execute(SCHEMA).fetchone() or (None,)
    if connection.execute("SELECT to_regclass('ratchet_version')").fetchone() == (None,):
        return (schema,)
    return schema, connection.execute("SELECT version_num FROM ratchet_version").fetchall()
