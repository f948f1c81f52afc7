"""Schema: which version a database has, and bringing an older one up to date."""

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

VERSIONS = ("1",)
"""Every schema version there was, oldest first. Known without Alembic, which takes a third of a
second to import and is needed only when there is something to upgrade."""

DEVELOPMENT = ("0001", "0002", "0003", "0004", "0005")
"""Schema versions from before the first release. No migration leads from them to `VERSIONS`."""

MIGRATIONS = Path(__file__).parent / "migrations"
"""The folder of Alembic's script: a step a file in `versions/`."""

VERSION_TABLE = "ratchet_version"

# Any number will do, so long as every Ratchet uses the same: it keeps two upgrades apart.
_UPGRADE_LOCK = 7_236_142_458

_upgrading = threading.Lock()


def prepare(database: Database, *, patience_s: float = 0.0) -> None:
    """Create, upgrade or just check the schema.

    Args:
        database: The database.
        patience_s: How long to try again while it cannot be reached. None by default: whoever
            opens a store waits for an answer, and a wrong URL stays wrong.

    Raises:
        StoreError: The database is newer than this Ratchet, or from before its first release,
            belongs to something else, is damaged, or cannot be reached or written.
    """
    found = (
        _sqlite_version(database.place)
        if database.is_sqlite
        else database.read(_version_on, patience_s=patience_s)
    )
    _refuse_unknown(found, database.place)
    if found != VERSIONS[-1]:
        database.write(
            lambda connection: _upgrade(connection, database.place), patience_s=patience_s
        )


def config(connection: Connection) -> Config:
    """Alembic's configuration for the migrations of this package, to run on `connection`."""
    from alembic.config import Config

    settings = Config()
    settings.set_main_option("script_location", str(MIGRATIONS))
    settings.attributes["connection"] = connection
    return settings


def _sqlite_version(path: str) -> str | None:
    """Version of the file at `path`, made ready for several processes; None when it is new."""
    file = Path(path)
    try:
        make_folder(file.parent)
    except OSError as error:
        raise StoreError(
            f"The folder of the store {path} cannot be made ({error.strerror}).",
            hint="Name a folder that can be written.",
        ) from None
    if file.is_dir():
        raise StoreError(
            f"The store {path} is a folder, not a file.",
            hint=f"Name a file in it: {path}/ratchet.db.",
        )
    for needed in (file.parent, file):
        # Else the first write would find out, perhaps after minutes of work.
        if needed.exists() and not os.access(needed, os.R_OK | os.W_OK):
            raise StoreError(
                f"The store {path} cannot be written: {needed} is read-only.",
                hint="Make the file and its folder writable, or name another place.",
            )
    # SQLite would make it with the umask; its log and its index get the file's own mode. Where it
    # cannot be made, SQLite says why.
    with suppress(OSError):
        make_file(file)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _read_sqlite(path)
        except sqlite3.Error as error:
            # Turning WAL on fails without waiting while another process does the same.
            if not passes(error) or time.monotonic() > deadline:
                raise explain(error, path) from error
        time.sleep(0.02)


def _read_sqlite(path: str) -> str | None:
    with closing(sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)) as connection:
        # Read first: a file that is not ours must stay as it is.
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if names and VERSION_TABLE not in names:
            raise StoreError(
                f"The store {path} is a database of another program.",
                hint="It was left as it is. Name another file.",
            )
        close_files(Path(f"{path}{end}") for end in ("", "-wal", "-shm"))
        found = None
        if names:
            row = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()  # noqa: S608
            found = str(row[0]) if row else None
        _refuse_unknown(found, path)
        # It stays with the file.
        if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise StoreError(
                f"The store {path} is on a file system that several processes cannot share.",
                hint="Put it on a local disk.",
            )
        return found


def _version_on(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608
    return None if found is None else str(found)


def _refuse_unknown(found: str | None, place: str) -> None:
    if found in DEVELOPMENT:
        raise StoreError(
            f"The store {place} was made by a development version of Ratchet (its schema is"
            f" {found}), and this one cannot upgrade it.",
            hint="Nothing in it was changed. Name another store or move this one away to begin"
            " anew, or open it with the version that made it.",
        )
    if found is not None and found not in VERSIONS:
        raise StoreError(
            f"The store {place} was made by a newer Ratchet (its schema is {found},"
            f" this one knows up to {VERSIONS[-1]}).",
            hint="Upgrade Ratchet, or name another store.",
        )


def _upgrade(connection: Connection, place: str) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _UPGRADE_LOCK})
    # Somebody else may have upgraded while this waited for the lock.
    found = _version_on(connection)
    _refuse_unknown(found, place)
    if found == VERSIONS[-1]:
        return
    from alembic import command

    # Alembic keeps what it upgrades in globals: two threads would upgrade each other's database.
    with _upgrading:
        command.upgrade(config(connection), "head")
