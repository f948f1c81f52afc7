"""The tests' own databases: what one test leaves in its store, the next one does not find."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest
from tests.postgres_databases import PostgresDatabases

from ratchet.store import Store
from ratchet.types import Label

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


def test_a_writer_that_outlives_its_test_does_not_reach_the_next_one(
    postgres_databases: PostgresDatabases,
) -> None:
    name, url = postgres_databases.take()
    ended = threading.Event()
    refused = threading.Event()
    written = threading.Event()

    def write_on() -> None:
        while not ended.is_set():
            try:
                with psycopg.connect(url, autocommit=True) as connection:
                    while not ended.is_set():
                        connection.execute(
                            "INSERT INTO labels (id, rollout_id, trace_id, criterion, body,"
                            " created_at) VALUES (gen_random_uuid()::text, '', 't', '', '{}', 0)"
                        )
                        written.set()
            except psycopg.Error:
                if written.is_set():
                    refused.set()

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        assert written.wait(30)
        postgres_databases.give_back(name)
        following, other = postgres_databases.take()
        with Store.open(other) as store:
            assert refused.wait(30)
            assert store.labels.list() == []
            store.labels.add([Label(id="mine", value=1.0, trace_id="t")], time.time())
            assert [label.id for label in store.labels.list()] == ["mine"]
    finally:
        ended.set()
        writer.join()
    postgres_databases.give_back(following)
