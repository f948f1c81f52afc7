"""Opening a store: new, older, newer, damaged, not ours, out of reach."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event, inspect, text
from tests.store.later_schema import LATER, become_later, stamp
from tests.store.made import rollout

from ratchet.store import Store, schema
from ratchet.store.engine import Database
from ratchet.store.location import parse
from ratchet.store.tables import metadata
from ratchet.types import StoreError

SAME_TYPE = {"FLOAT": "DOUBLE PRECISION", 'TEXT COLLATE "C"': "TEXT"}


def types_differ(context: Any, _: Any, __: Any, found: Any, declared: Any) -> bool:
    """Whether two column types are written differently in this database's own words."""
    spoken = [kind.compile(context.dialect) for kind in (found, declared)]
    return len({SAME_TYPE.get(kind, kind) for kind in spoken}) > 1


def fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_missing_folder_is_made_and_the_store_comes_back_after_closing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a/b/ratchet.db"
    with Store.open(url) as store:
        assert store.rollouts.create([rollout("r1")], 1.0) == 1
    with Store.open(url) as store:
        assert list(store.rollouts.get(["r1"])) == ["r1"]


def test_the_versions_known_without_alembic_are_those_of_the_migrations() -> None:
    database = Database(parse("sqlite:////nowhere/ratchet.db"))
    script = ScriptDirectory.from_config(schema.config(None))  # type: ignore[arg-type]
    database.close()
    revisions = [step.revision for step in script.walk_revisions()]
    assert tuple(reversed(revisions)) == schema.VERSIONS


def is_declared(_: Any, name: str | None, kind: str, *__: Any) -> bool:
    """Leaves out the partitions of spans on Postgres, and the words that are searched."""
    return kind != "table" or not str(name).startswith(("spans_", "trace_words"))


def test_the_migrations_lead_to_the_tables_as_they_are_declared(store: Store) -> None:
    with store._database.engine.connect() as connection:
        options = {
            "version_table": schema.VERSION_TABLE,
            "compare_type": types_differ,
            "include_object": is_declared,
        }
        context = MigrationContext.configure(connection, opts=options)
        missing = compare_metadata(context, metadata)
        if connection.dialect.name == "postgresql":
            # Each partition has this key, the parent has not.
            assert [(kind, key.name) for kind, key in missing] == [("add_constraint", "uq_spans")]
            for part in ("spans_of_rollouts", "spans_elsewhere"):
                (key,) = inspect(connection).get_unique_constraints(part)
                assert key["column_names"] == ["rollout_seq", "fence", "trace_id", "span_id"]
        else:
            assert missing == []


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], None]:
    """Turns this Ratchet into a later one, whose schema has one more step."""
    return lambda: become_later(monkeypatch, tmp_path)


def test_an_older_database_is_upgraded_and_keeps_its_rows(
    store_url: str, later: Callable[[], None]
) -> None:
    with Store.open(store_url) as store:
        store.journal.append("r", "k", "seven", 1.0)
        store.rollouts.create([rollout("b"), rollout("a")], 1.0)
    later()
    for _ in range(2):
        with Store.open(store_url) as store:
            assert store.journal.read("r") == [("k", "seven")]
            assert [r.id for r in store.rollouts.list()[0]] == ["a", "b"]
            query = f"SELECT version_num, length FROM {schema.VERSION_TABLE}, journal"
            assert store._database.read(lambda c, q=query: c.execute(text(q)).one()) == ("2", 7)


def test_an_upgrade_that_fails_changes_nothing(store_url: str, later: Callable[[], None]) -> None:
    later()
    step = schema.MIGRATIONS / "versions" / "v2_later.py"
    step.write_text(step.read_text().replace("length(body)", "length(nobody)"))
    with pytest.raises(StoreError):
        Store.open(store_url)
    step.write_text(LATER)
    with Store.open(store_url) as store:
        store.journal.append("r", "k", "seven", 1.0)


def _open(url: str, start: Any, answers: Any) -> None:
    start.wait()
    try:
        Store.open(url).close()
        answers.put("opened")
    except BaseException as error:
        answers.put(repr(error))


def test_processes_that_open_a_new_or_an_older_database_at_once_all_succeed(
    tmp_path: Path, sqlite_url: str, later: Callable[[], None]
) -> None:
    spawn = multiprocessing.get_context("fork")
    later()
    for url in (f"sqlite:///{tmp_path}/new.db", sqlite_url):
        start, answers = spawn.Event(), spawn.Queue()
        openers = [spawn.Process(target=_open, args=(url, start, answers)) for _ in range(4)]
        for opener in openers:
            opener.start()
        start.set()
        assert [answers.get(timeout=30) for _ in openers] == ["opened"] * 4
        for opener in openers:
            opener.join()


def test_a_newer_database_is_refused_and_left_alone(store_url: str) -> None:
    stamp(store_url, "9999")
    with pytest.raises(StoreError, match=r"made by a newer Ratchet.*9999.*[Uu]pgrade Ratchet"):
        Store.open(store_url)


@pytest.mark.parametrize(
    "content",
    [b"this is no database" * 100, b"\x00" * 5000, os.urandom(8192)],
    ids=["text", "zeros", "noise"],
)
def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ratchet.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"ratchet\.db is not a SQLite database.*Nothing was"):
        Store.open(f"sqlite:///{path}")
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["ratchet.db"]


def test_damage_inside_is_told_when_it_is_met(sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store:
        store.rollouts.create([rollout(f"r{n}", input="x" * 500) for n in range(200)], 1.0)
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    content = bytearray(path.read_bytes())
    for page in range(12 * 4096, len(content), 4096):
        content[page : page + 512] = b"\xff" * 512
    path.write_bytes(content)
    with (
        pytest.raises(StoreError, match=r"ratchet\.db is damaged"),
        Store.open(sqlite_url) as store,
    ):
        store.rollouts.list(limit=500)


def test_a_database_of_another_program_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (id)")
    connection.close()
    before = fingerprint(path)
    with pytest.raises(StoreError, match=r"theirs\.db is a database of another program"):
        Store.open(f"sqlite:///{path}")
    assert fingerprint(path) == before


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("", "is a folder, not a file"),
        ("/file/ratchet.db", r"The folder of the store .*ratchet\.db cannot be created"),
        # No permission bits stop root, the kernel's own file system stops everyone.
        ("/proc/self/ratchet.db", r"/proc/self/ratchet\.db cannot be (opened|written)"),
    ],
)
def test_a_place_where_no_store_can_be_is_refused(tmp_path: Path, place: str, said: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=said):
        Store.open(f"sqlite:///{place if place.startswith('/proc') else f'{tmp_path}{place}'}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_read_only_place_is_refused(tmp_path: Path, sqlite_url: str, what: str) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    path.parent.chmod(0o555 if what == "folder" else 0o777)
    path.chmod(0o444)
    for folder in path.parents[1:]:
        if folder.stat().st_uid == 0 and folder != Path("/") and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    answer = multiprocessing.get_context("fork").Queue()

    def as_nobody() -> None:
        os.setuid(65534)
        try:
            Store.open(sqlite_url)
            answer.put("opened")
        except StoreError as error:
            answer.put(str(error))

    child = multiprocessing.get_context("fork").Process(target=as_nobody)
    child.start()
    assert "cannot be written" in answer.get(timeout=30)
    child.join()


def test_a_full_disk_is_told_and_what_was_there_stays(sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store:
        store.rollouts.create([rollout("first")], 1.0)

    with Store.open(sqlite_url) as store:
        # SQLite's own limit on pages fails with the very error of a full disk.
        @event.listens_for(store._database.engine, "connect")
        def limit(connection: Any, _: Any) -> None:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")

        big = [rollout(f"r{n}", input="x" * 100_000) for n in range(20)]
        with pytest.raises(StoreError, match=r"ratchet\.db could not be written: the disk is full"):
            store.rollouts.create(big, 2.0)
        assert list(store.rollouts.get(["first", "r0"])) == ["first"]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "malformed"),
        ("mysql://me:s3cret@host/db", "'mysql', which is not supported"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("postgresql://me:s3cret@host:port/db", "malformed"),
        ("postgresql://me:s3cret@127.0.0.1:1/db", r"127\.0\.0\.1.*cannot be reached"),
        (
            "postgresql://me@127.0.0.1:1/db?password=s3cret&sslpassword=s3cret",
            r"127\.0\.0\.1.*cannot be reached",
        ),
    ],
)
def test_a_url_that_leads_nowhere_is_told_without_its_password(url: str, message: str) -> None:
    with pytest.raises(StoreError, match=message) as caught:
        Store.open(url)
    seen: BaseException | None = caught.value
    while seen is not None:
        assert "s3cret" not in f"{seen!s} {seen!r}"
        seen = seen.__cause__


def test_the_password_is_not_in_the_name_of_an_open_store() -> None:
    database = Database(parse("postgresql://me:s3cret@host/db?sslpassword=s3cret"))
    assert "s3cret" not in repr(Store(database))
    assert "me:***@host/db" in repr(Store(database))
    database.close()


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.summary()


@pytest.mark.postgres
def test_a_postgres_that_drops_its_connections_is_asked_again(
    postgres_url: str, postgres_server: Callable[[str], str]
) -> None:
    import psycopg

    with Store.open(postgres_url) as store:
        store.rollouts.create([rollout("r1")], 1.0)
        with psycopg.connect(postgres_server("postgres"), autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                [postgres_url.split("/")[-1].split("?")[0]],
            )
        assert store.rollouts.create([rollout("r1"), rollout("r2")], 1.0) == 1
        assert len(store.rollouts.get(["r1", "r2"])) == 2


def test_opening_a_store_that_is_up_to_date_imports_no_alembic(sqlite_url: str) -> None:
    program = f"""
        import sys
        from ratchet.store import Store
        with Store.open({sqlite_url!r}) as store:
            store.summary()
        print([name for name in sys.modules if name.split(".")[0] in ("alembic", "psycopg")])
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"
