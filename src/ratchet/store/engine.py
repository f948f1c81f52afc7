"""Database engine: connections, transactions, retries, and fork safety."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Column, Connection, Engine, Insert, Table, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ratchet._waiting import WAITS
from ratchet.store.clock import LeaseClock
from ratchet.store.failures import explain, passes
from ratchet.store.location import redacted
from ratchet.types import RatchetError, StoreError

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql as _postgresql
    from sqlalchemy.dialects import sqlite as _sqlite

AWAITED = "the database"
"""What a caller waits for, in words."""

PATIENCE_S = 30.0
"""Seconds that an operation is retried before it fails with a StoreError."""

VALUES_PER_STATEMENT = 500
"""Values per IN list; SQLite and Postgres both limit the arguments of a statement."""

_guard: ContextVar[tuple[str, Callable[[Connection], None]] | None] = ContextVar(
    "ratchet_write_guard", default=None
)
"""Location of a database, and the check that precedes each write."""

_Result = TypeVar("_Result")
_Item = TypeVar("_Item")


class Database:
    """A database that runs functions in transactions. Thread-safe; a fork gets its own connections.

    Args:
        url: As `location.parse` returns it.
    """

    def __init__(self, url: URL) -> None:
        self.location = redacted(url)
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.engine = _sqlite_engine(url) if self.is_sqlite else _postgres_engine(url)
        self._writer = self.engine.execution_options(ratchet_begin="BEGIN IMMEDIATE")
        self.lease_clock = LeaseClock(self)
        self._gate = _Gate()
        # SQLite has one writer at a time. Threads queue here, in order, rather than in SQLite's
        # busy handler, which polls and starves.
        self._turn = threading.Lock()
        self._pid = os.getpid()
        self._closed = False
        _open.add(self)

    def read(
        self, work: Callable[[Connection], _Result], *, patience_s: float = PATIENCE_S
    ) -> _Result:
        """Run `work` in a read-only transaction.

        Raises:
            StoreError: The database cannot be read.
        """
        with WAITS.on(AWAITED):
            return self._run(work, self.engine, patience_s)

    def write(
        self, work: Callable[[Connection], _Result], *, patience_s: float = PATIENCE_S
    ) -> _Result:
        """Run `work` in a transaction and commit it; roll back when it raises.

        `work` is run again when the database was locked or the connection lost. If that happens
        during the commit, the first run may have been committed, so `work` must be idempotent.

        Raises:
            StoreError: The database cannot be written.
        """
        guarded = self._guarded(work)
        if not self.is_sqlite:
            with WAITS.on(AWAITED):
                return self._run(guarded, self.engine, patience_s)
        with WAITS.on(AWAITED), self._write_turn():
            return self._run(guarded, self._writer, patience_s)

    @contextmanager
    def guarding(self, check: Callable[[Connection], None]) -> Iterator[None]:
        """Begin every write to this database in this context (task or thread) with a check.

        The check runs inside of the write's own transaction; when it raises, nothing is written.
        """
        token = _guard.set((self.location, check))
        try:
            yield
        finally:
            _guard.reset(token)

    def _guarded(self, work: Callable[[Connection], _Result]) -> Callable[[Connection], _Result]:
        guard = _guard.get()
        if guard is None or guard[0] != self.location:
            return work
        check = guard[1]

        def checked(connection: Connection) -> _Result:
            check(connection)
            return work(connection)

        return checked

    def insert_new(self, table: Table, *keys: str) -> Insert:
        """INSERT that skips rows whose `keys` exist; its rowcount gives the number of new rows."""
        row = self._dialect_insert(table).on_conflict_do_nothing(index_elements=keys)
        return row.inline().execution_options(preserve_rowcount=True)

    def upsert(self, table: Table, keys: Sequence[str], values: Sequence[str]) -> Insert:
        """INSERT that replaces `values` of rows whose `keys` exist."""
        row = self._dialect_insert(table)
        new = {name: row.excluded[name] for name in values}
        return row.on_conflict_do_update(index_elements=keys, set_=new).inline()

    def adding(self, table: Table, keys: Sequence[str], values: Sequence[str]) -> Insert:
        """INSERT that adds `values` to those of rows whose `keys` exist."""
        row = self._dialect_insert(table)
        sums = {name: table.c[name] + row.excluded[name] for name in values}
        return row.on_conflict_do_update(index_elements=keys, set_=sums).inline()

    def _dialect_insert(self, table: Table) -> _sqlite.Insert | _postgresql.Insert:
        if self.is_sqlite:
            from sqlalchemy.dialects import sqlite as dialect
        else:
            # Imported lazily: it costs the command line 50 ms.
            from sqlalchemy.dialects import postgresql as dialect  # type: ignore[no-redef]
        return dialect.insert(table)

    def close(self) -> None:
        """Close every connection; the database cannot be used afterwards."""
        self._closed = True
        _open.discard(self)
        self.engine.dispose()

    def _run(
        self,
        work: Callable[[Connection], _Result],
        engine: Engine,
        patience_s: float,
    ) -> _Result:
        deadline = time.monotonic() + patience_s
        pause_s = 0.005
        while True:
            try:
                with self._gate.inside():
                    self._check_usable()
                    with engine.begin() as connection:
                        return work(connection)
            except (DBAPIError, StatementError, PoolTimeout, sqlite3.Error) as error:
                own = getattr(error, "orig", None)
                if isinstance(own, RatchetError):
                    raise own from None
                if not passes(error) or time.monotonic() + pause_s > deadline:
                    raise explain(error, self.location) from error
            time.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311  (spreads retries)
            pause_s = min(pause_s * 2, 1.0)

    @contextmanager
    def _write_turn(self) -> Iterator[None]:
        turn = self._turn
        if not turn.acquire(timeout=PATIENCE_S * 2):
            raise StoreError(
                f"The store {self.location} stayed locked by other threads of this process.",
                hint="Try again.",
            )
        try:
            yield
        finally:
            turn.release()

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreError(f"The store {self.location} is closed.", hint="Open it again.")
        if self._pid != os.getpid():
            # A fork that Python did not see. The connections belong to the parent: drop them
            # without closing.
            self._pid = os.getpid()
            self.engine.dispose(close=False)

    def before_fork(self) -> None:
        """Wait for running work, block new work, and close every connection.

        SQLite forbids using a connection across a fork: locks belong to a process, and a child that
        assumed its parent's locks would damage the file.
        """
        self._gate.shut(PATIENCE_S)
        self.engine.dispose()

    def after_fork_in_parent(self) -> None:
        """Unblock work."""
        self._gate.open()

    def after_fork_in_child(self) -> None:
        """Reset all state: threads that held locks do not exist here."""
        self._pid = os.getpid()
        self._gate = _Gate()
        self._turn = threading.Lock()
        self.engine.dispose(close=False)


def chunks(items: Sequence[_Item], size: int = VALUES_PER_STATEMENT) -> Iterator[Sequence[_Item]]:
    """Split the items, in order, into chunks of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def starts_with(column: Column[str], prefix: str) -> Any:
    """Condition that a text starts with `prefix`, as a range that an index serves."""
    return column.between(*prefix_range(prefix)) if prefix else column.is_not(None)


def prefix_range(prefix: str) -> tuple[str, str]:
    """First and last text that starts with a prefix."""
    return prefix, prefix + "\U0010ffff"


class _Gate:
    """Counts running operations, and blocks new ones while shut."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._shut = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._shut)
            self._count += 1
        try:
            yield
        finally:
            with self._changed:
                self._count -= 1
                if self._shut:
                    self._changed.notify_all()

    def shut(self, timeout_s: float) -> None:
        with self._changed:
            self._shut = True
            self._changed.wait_for(lambda: self._count == 0, timeout_s)

    def open(self) -> None:
        with self._changed:
            self._shut = False
            self._changed.notify_all()


def _sqlite_engine(url: URL) -> Engine:
    engine = create_engine(
        url,
        pool_size=8,
        max_overflow=56,
        pool_timeout=PATIENCE_S,
        pool_use_lifo=True,
        hide_parameters=True,
        connect_args={
            "timeout": PATIENCE_S,
            "check_same_thread": False,
            # Transactions begin below, not where Python's driver would begin them.
            "isolation_level": None,
            "cached_statements": 256,
        },
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        # In WAL mode a commit has reached the operating system when it returns, so it survives kill
        # -9. NORMAL omits the fsync per commit: a power failure may lose the last commits, and only
        # those.
        connection.execute("PRAGMA synchronous = NORMAL")
        # 16 MB of pages suffice: keys grow at their end, so recent writes lie close together. A
        # larger cache, memory mapping, larger pages or rarer checkpoints gained nothing measurable
        # with 100,000 rollouts.
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        connection.execute("PRAGMA journal_size_limit = 67108864")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # Lock at once: two readers that both upgraded to writers would deadlock.
        how = connection.get_execution_options().get("ratchet_begin", "BEGIN")
        driver: Any = connection.connection.driver_connection
        driver.execute(how)

    return engine


def _postgres_engine(url: URL) -> Engine:
    try:
        return create_engine(
            url,
            pool_size=8,
            max_overflow=24,
            pool_timeout=PATIENCE_S,
            pool_use_lifo=True,
            hide_parameters=True,
            # Do not wait forever for a server that vanished.
            connect_args={
                "connect_timeout": 10,
                "keepalives_idle": 15,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "tcp_user_timeout": 30_000,
            },
        )
    except (ModuleNotFoundError, NoSuchModuleError):
        raise StoreError(
            f"The store {redacted(url)} needs the Postgres driver, which is not installed.",
            hint="Install it with: pip install 'agent-ratchet[postgres]'.",
        ) from None


_open: weakref.WeakSet[Database] = weakref.WeakSet()


def _each(action: Callable[[Database], None]) -> Callable[[], None]:
    def run() -> None:
        for database in list(_open):
            action(database)

    return run


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_each(Database.before_fork),
        after_in_parent=_each(Database.after_fork_in_parent),
        after_in_child=_each(Database.after_fork_in_child),
    )
