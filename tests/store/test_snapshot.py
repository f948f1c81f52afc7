"""The file from which new SQLite stores are made.

`python -m tests.store.test_snapshot` writes it anew after a change of the schema.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from sqlalchemy import create_engine

from ratchet.store import Store
from ratchet.store.schema import SNAPSHOT, VERSION_TABLE, config


def migrated(path: Path) -> list[str]:
    """Statements that make what the migrations make."""
    from alembic import command

    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        command.upgrade(config(connection), "head")
    engine.dispose()
    with closing(sqlite3.connect(path)) as connection:
        made = statements(path)
        (version,) = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()
    return [*made, f"INSERT INTO {VERSION_TABLE} (version_num) VALUES ('{version}')"]


def statements(path: Path) -> list[str]:
    """Statements that make the tables and indexes of a database, in the order they were made."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            # A virtual table makes its own tables.
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
            " AND name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow')"
        )
        lines = [sql.splitlines() for (sql,) in rows]
    return ["\n".join(line.rstrip() for line in each if line.strip()) for each in lines]


def test_the_snapshot_is_what_the_migrations_make_and_a_new_store_is_made_of_it(
    tmp_path: Path,
) -> None:
    wanted = migrated(tmp_path / "m.db")
    assert SNAPSHOT.read_text() == ";\n\n".join(wanted) + ";\n", "see this file's docstring"
    path = tmp_path / "new.db"
    for _ in range(2):
        with Store.open(f"sqlite:///{path}") as store:
            assert store.labels.list() == []
    assert statements(path) == wanted[:-1]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        SNAPSHOT.write_text(";\n\n".join(migrated(Path(folder) / "m.db")) + ";\n")
