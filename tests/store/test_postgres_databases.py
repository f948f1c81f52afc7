"""The tests' own databases: what one test leaves in its store, the next one does not find."""

from __future__ import annotations

import psycopg
import pytest
from tests.postgres_databases import PostgresDatabases

pytestmark = pytest.mark.postgres


def test_a_database_that_is_used_again_is_empty_and_has_another_name(
    postgres_databases: PostgresDatabases,
) -> None:
    name, url = postgres_databases.take()
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO settings SELECT 'left', '1'")
    postgres_databases.give_back(name)
    again, url = postgres_databases.take()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM settings").fetchone() == (0,)
    assert again != name
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url.replace(again, name))
    postgres_databases.give_back(again)


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE more (id int)",
        "ALTER TABLE settings ADD COLUMN more int",
        "UPDATE ratchet_version SET version_num = '9'",
        "DROP TABLE ratchet_version",
    ],
)
def test_a_database_whose_schema_was_changed_is_not_used_again(
    postgres_databases: PostgresDatabases, change: str
) -> None:
    name, url = postgres_databases.take()
    with psycopg.connect(url) as connection:
        connection.execute(change)
    postgres_databases.give_back(name)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)
    _, url = fresh = postgres_databases.take()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT version_num FROM ratchet_version").fetchone() == ("1.0",)
    postgres_databases.give_back(fresh[0])
