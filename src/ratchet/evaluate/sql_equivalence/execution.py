"""Runs a query in SQLite, read-only, and bounded in time and rows."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from ratchet.types import InputError

MAX_ROWS = 100_000
"""Maximum number of rows of a result."""

MAX_QUERY = 100_000
"""Maximum length of a query, in characters."""

_MAX_VALUE = 10_000_000
_STEPS = 2_000
_FORBIDDEN = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})
_RECURSIVE = 33  # SQLITE_RECURSIVE, which the module does not name
_READING = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, _RECURSIVE}
)

Row = tuple[Any, ...]


class QueryFailed(Exception):
    """SQLite refused a query, or it failed; the message is a clause."""


class QueryTooLarge(Exception):
    """A query exceeded its limit of time, rows or memory; the message is a clause."""


def open_read_only(file: str) -> sqlite3.Connection:
    """Open a database file for reading.

    Raises:
        InputError: It does not exist, or is no SQLite database.
    """
    path = Path(file)
    if not path.is_file():
        raise InputError(f"The database {file} does not exist.")
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    except sqlite3.DatabaseError as error:
        connection.close()
        raise InputError(f"The database {file} cannot be read: {error}.") from None
    restrict(connection)
    return connection


def restrict(connection: sqlite3.Connection) -> None:
    """Make a connection read-only, with values of at most ten megabytes."""
    connection.isolation_level = None
    connection.text_factory = lambda raw: raw.decode(errors="replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.set_authorizer(_authorize)


def _authorize(action: int, _: str | None, name: str | None, *__: str | None) -> int:
    if action not in _READING:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (name or "").lower() in _FORBIDDEN:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def run(connection: sqlite3.Connection, query: str, *, seconds: float) -> list[Row]:
    """The rows of a query.

    Args:
        connection: A connection after `restrict`.
        query: One statement.
        seconds: Time limit.

    Raises:
        QueryFailed: It is not a query, changes something, or fails.
        QueryTooLarge: It took longer, or gives more than MAX_ROWS rows.
    """
    until = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        cursor = connection.execute(query)
        if cursor.description is None:
            raise QueryFailed("it is not a query")
        rows: list[Row] = cursor.fetchmany(MAX_ROWS + 1)
    except sqlite3.Error as error:
        if "interrupted" in str(error):
            raise QueryTooLarge(f"it did not end within {seconds:g} s") from None
        if "not authorized" in str(error) or "prohibited" in str(error):
            raise QueryFailed("it does more than read") from None
        if "too big" in str(error):
            raise QueryTooLarge("one of its values is too large") from None
        raise QueryFailed(f"SQLite says: {error}") from None
    except (UnicodeError, ValueError, sqlite3.Warning) as error:
        raise QueryFailed(f"SQLite cannot read it: {error}") from None
    finally:
        connection.set_progress_handler(None, 0)
    if len(rows) > MAX_ROWS:
        raise QueryTooLarge(f"it gives more than {MAX_ROWS} rows")
    return rows
