"""Schema version of a database, and its creation or upgrade."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from ratchet._private_files import close_files, make_file, make_folder
from ratchet.store.engine import PATIENCE_S, Database
from ratchet.store.failures import explain, passes
from ratchet.types import StoreError

if TYPE_CHECKING:
    from alembic.config import Config

VERSIONS = ("1.0",)
"""All schema versions, oldest first. Listed here because importing Alembic takes a third of a
second and is needed only for upgrades."""

MIGRATIONS = Path(__file__).parent / "migrations"
"""Alembic's script folder, with one migration per file in `versions/`."""

SNAPSHOT = Path(__file__).parent / "schema.sql"
"""An empty SQLite store of the newest version; tests/store/test_snapshot.py keeps it up to date."""

VERSION_TABLE = "ratchet_version"

# An arbitrary number, the same in every Ratchet: serialises upgrades.
_UPGRADE_LOCK = 7_236_142_458

_upgrading = threading.Lock()


def prepare(database: Database, *, patience_s: float = 0.0) -> None:
    """Create, upgrade or check the schema.

    Args:
        database: The database.
        patience_s: Seconds to retry while it cannot be reached. 0 by default: the caller waits for
            an answer, and retrying does not mend a wrong URL.

    Raises:
        StoreError: The database is newer than this Ratchet, older than its first release, belongs
            to another program, is damaged, or cannot be reached or written.
    """
    version = (
        _sqlite_version(database.location)
        if database.is_sqlite
        else database.read(_version_on, patience_s=patience_s)
    )
    _refuse_unknown(version, database.location)
    if version != VERSIONS[-1]:
        database.write(
            lambda connection: _upgrade(connection, database.location), patience_s=patience_s
        )


def config(connection: Connection) -> Config:
    """Alembic's configuration for running this package's migrations on `connection`."""
    from alembic.config import Config

    settings = Config()
    settings.set_main_option("script_location", str(MIGRATIONS))
    settings.attributes["connection"] = connection
    return settings


def _sqlite_version(path: str) -> str | None:
    """Prepare the file at `path` for several processes; return its version, None if new."""
    file = Path(path)
    try:
        make_folder(file.parent)
    except OSError as error:
        raise StoreError(
            f"The folder of the store {path} cannot be created ({error.strerror}).",
            hint="Name a folder that is writable.",
        ) from None
    if file.is_dir():
        raise StoreError(
            f"The store {path} is a folder, not a file.",
            hint=f"Name a file in it: {path}/ratchet.db.",
        )
    for needed in (file.parent, file):
        # Otherwise the first write would fail, perhaps after minutes of work.
        if needed.exists() and not os.access(needed, os.R_OK | os.W_OK):
            raise StoreError(
                f"The store {path} cannot be written: {needed} is read-only.",
                hint="Make the file and its folder writable, or name another path.",
            )
    # SQLite would create it with the umask; WAL and index files inherit the file's mode. If
    # creation fails, SQLite reports why.
    with suppress(OSError):
        make_file(file)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _read_sqlite(path)
        except sqlite3.Error as error:
            # Turning WAL on fails immediately while another process does the same.
            if not passes(error) or time.monotonic() > deadline:
                raise explain(error, path) from error
        time.sleep(0.02)


def _read_sqlite(path: str) -> str | None:
    with closing(sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)) as connection:
        # Read before writing: another program's file must stay unchanged.
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if names and VERSION_TABLE not in names:
            raise StoreError(
                f"The store {path} is a database of another program.",
                hint="It was not changed. Name another file.",
            )
        close_files(Path(f"{path}{end}") for end in ("", "-wal", "-shm"))
        version = None
        if names:
            row = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()  # noqa: S608
            version = str(row[0]) if row else None
        _refuse_unknown(version, path)
        # Persistent in the file.
        if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise StoreError(
                f"The store {path} is on a file system that several processes cannot share.",
                hint="Put it on a local disk.",
            )
        return version


def _version_on(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    version = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608
    return None if version is None else str(version)


def _refuse_unknown(version: str | None, location: str) -> None:
    if version is not None and version not in VERSIONS:
        raise StoreError(
            f"The store {location} was made by a newer Ratchet (its schema is {version}; this "
            f"version knows up to {VERSIONS[-1]}).",
            hint="Upgrade Ratchet, or name another store.",
        )


def _upgrade(connection: Connection, location: str) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _UPGRADE_LOCK})
    # Another process may have upgraded while this one waited for the lock.
    version = _version_on(connection)
    _refuse_unknown(version, location)
    if version == VERSIONS[-1]:
        return
    if version is None and connection.dialect.name == "sqlite":
        # What the migrations would make, without importing Alembic: a fifth of a second.
        for statement in SNAPSHOT.read_text().split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
        return
    from alembic import command

    # Alembic stores its target in globals: two threads would upgrade each other's database.
    with _upgrading:
        command.upgrade(config(connection), "head")
