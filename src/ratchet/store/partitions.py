"""Partitions of the table of spans on Postgres: live spans by their start, rollouts' spans
apart.

The table `spans` has two partitions: `spans_of_rollouts`, which are deleted with their rollouts,
and `spans_live`. (Not one level by both columns: Postgres 18.4 then skips the default partition in
some queries that it should read.) The partitions of `spans_live` are:

- `spans_YYYYMMDD_HHMMSS`: spans that started in a period, named after its first second (UTC);
- `spans_earlier`: spans that started before the first of these periods;
- `spans_elsewhere`: the default partition, for starts outside all periods: of a clock far ahead,
  or in a period that was dropped.

A partition has its own indexes, so new spans are inserted into small ones, and a period past its
retention is dropped as a table. SQLite has one table.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, text

from ratchet.store.engine import PATIENCE_S, Database

PER_RETENTION = 8
"""Number of periods that a retention is divided into. More would delete sooner after the
retention, but each costs a lookup in every query by id."""

MIN_PERIOD_S, MAX_PERIOD_S = 3_600.0, 30 * 86_400.0
"""Shortest and longest period in seconds; the longest is used without a retention."""

PERIODS_AHEAD = 2
"""Periods after the current one that are created in advance."""

MODEL_SPANS, LIVE_SPANS = "spans_of_rollouts", "spans_live"
DEFAULT_PARTITION, EARLIER_PARTITION = "spans_elsewhere", "spans_earlier"

MOVED = 50_000
"""Maximum number of spans moved from the default partition to new ones; a larger default partition
becomes a period's partition itself."""

# Arbitrary numbers, the same in every Ratchet: one server at a time changes partitions, and one
# deletes spans from a detached one.
PARTITION_LOCK, DROP_LOCK = 7_236_142_460, 7_236_142_461

_BOUNDS = re.compile(r"FROM \((?:'(-?\d+)'|MINVALUE)\) TO \('(-?\d+)'\)")

_PARTITIONS = text(
    "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i"
    " JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass('spans_live')"
)

# Detached, but not deleted yet: by a server that was killed in between.
_DETACHED = text(
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND NOT relispartition"
    " AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('spans'))"
    " AND (relname = 'spans_earlier' OR relname ~ '^spans_[0-9]{8}_[0-9]{6}$')"
    " ORDER BY relname LIMIT 1"
)

# Queries behind one that waits for a table wait too, so it gives up soon.
_HURRY = text("SET LOCAL lock_timeout = '500ms'")

Period = tuple[int | None, int]
"""First start and end (exclusive), Unix time in nanoseconds; None for no limit."""


class Partition(NamedTuple):
    """A partition of live spans that started in a period."""

    name: str
    begin_ns: int | None
    """None for `spans_earlier`."""
    end_ns: int


class SpanPartitions:
    """Creates and drops partitions of live spans. SQLite has none."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def existing(self) -> list[Partition]:
        """Return the partitions with a period, oldest first."""
        return [] if self._database.is_sqlite else self._database.read(_read)

    def ahead(self, period_s: float, now: float | None = None) -> list[str]:
        """Create the missing partitions of the current period and the next ones.

        Spans in the default partition that belong in them are moved. Several servers may call it
        at once.

        Args:
            period_s: Length of new periods in seconds; those that exist keep theirs.
            now: Unix seconds; by default the database's clock, which is the same for all servers.

        Returns:
            Names of the new partitions.
        """
        if self._database.is_sqlite:
            return []
        period_ns = int(period_s * 1e9)

        def missing(connection: Connection) -> tuple[int, list[Period]]:
            at_s = now
            if at_s is None:
                at_s = float(connection.scalar(text("SELECT extract(epoch FROM now())")) or 0)
            partitions = _read(connection)
            last_ns = partitions[-1].end_ns if partitions else None
            return int(at_s * 1e9), periods_ahead(last_ns, int(at_s * 1e9), period_ns)

        def work(connection: Connection) -> list[str]:
            _lock(connection, PARTITION_LOCK)
            now_ns, periods = missing(connection)
            return _make(connection, periods, now_ns) if periods else []

        _, periods = self._database.read(missing)
        return self._database.write(work) if periods else []

    def drop(self, before_ns: int, *, patience_s: float = PATIENCE_S) -> int | None:
        """Drop the oldest partition whose period ended before a moment.

        Its spans that ended later (they took long, or their clock was ahead) are kept: they move to
        the default partition.

        Args:
            before_ns: Unix time in nanoseconds.
            patience_s: Seconds to retry while the tables are locked.

        Returns:
            Number of deleted spans; None if nothing is to be dropped, or another server does it.
        """
        if self._database.is_sqlite:
            return None

        def detach(connection: Connection) -> bool:
            _lock(connection, PARTITION_LOCK)
            if connection.scalar(_DETACHED) is not None:
                return True
            old = [partition for partition in _read(connection) if partition.end_ns <= before_ns]
            if old:
                connection.execute(_HURRY)
                connection.execute(text(f"ALTER TABLE {LIVE_SPANS} DETACH PARTITION {old[0].name}"))
            return bool(old)

        def delete(connection: Connection) -> int | None:
            # Reading a large partition takes long, so no other table is locked: whatever is sent
            # late arrives in the default partition in the meantime.
            if not connection.scalar(text(f"SELECT pg_try_advisory_xact_lock({DROP_LOCK})")):
                return None
            name = connection.scalar(_DETACHED)
            if name is None:
                return None
            before = {"before": before_ns}
            # A span that was sent again since then is in the default partition already.
            connection.execute(
                text(
                    f"INSERT INTO spans SELECT * FROM {name} WHERE end_ns >= :before"  # noqa: S608
                    " ON CONFLICT DO NOTHING"
                ),
                before,
            )
            old = text(f"SELECT count(*) FROM {name} WHERE end_ns < :before")  # noqa: S608
            deleted = connection.scalar(old, before)
            connection.execute(text(f"DROP TABLE {name}"))
            return int(deleted or 0)

        if not self._database.write(detach, patience_s=patience_s):
            return None
        return self._database.write(delete, patience_s=patience_s)


def period_s(retention_days: float | None) -> float:
    """Length of a period in seconds, by the retention of live spans; None for no limit."""
    if retention_days is None:
        return MAX_PERIOD_S
    wanted = retention_days * 86_400 / PER_RETENTION
    return min(max(round(wanted / MIN_PERIOD_S) * MIN_PERIOD_S, MIN_PERIOD_S), MAX_PERIOD_S)


def periods_ahead(last_ns: int | None, now_ns: int, period_ns: int) -> list[Period]:
    """Periods without a partition, up to `PERIODS_AHEAD` periods after the current one.

    New periods begin at multiples of their length since 1970. The time between the last existing
    period and the current one, when no server ran, is one period however long it was.

    Args:
        last_ns: End of the last existing period; None without any.
        now_ns: Unix time in nanoseconds.
        period_ns: Length of a period in nanoseconds.
    """
    current_ns = now_ns // period_ns * period_ns
    until_ns = current_ns + (1 + PERIODS_AHEAD) * period_ns
    periods: list[Period] = []
    if last_ns is None or last_ns < current_ns:
        periods.append((last_ns, current_ns))
        last_ns = current_ns
    while last_ns < until_ns:
        end_ns = (last_ns // period_ns + 1) * period_ns
        periods.append((last_ns, end_ns))
        last_ns = end_ns
    return periods


def _read(connection: Connection) -> list[Partition]:
    partitions = []
    for name, bounds in connection.execute(_PARTITIONS):
        match = _BOUNDS.search(bounds)
        if match is not None:
            begin, end = match.groups()
            partitions.append(Partition(name, None if begin is None else int(begin), int(end)))
    return sorted(partitions, key=lambda partition: partition.end_ns)


def _lock(connection: Connection, number: int) -> None:
    connection.execute(text(f"SELECT pg_advisory_xact_lock({number})"))


def _make(connection: Connection, periods: list[Period], now_ns: int) -> list[str]:
    fill = text(
        f"SELECT count(*) FROM (SELECT 1 FROM {DEFAULT_PARTITION} LIMIT {MOVED + 1}) AS few"  # noqa: S608
    )
    past = [period for period in periods if period[0] is None or period[0] <= now_ns]
    created = []
    connection.execute(_HURRY)
    if past and connection.scalar(fill) > MOVED:
        # The store grew without a server: moving that many spans would block it for minutes.
        created.append(_adopt(connection, (past[0][0], past[-1][1])))
        periods = periods[len(past) :]
    for begin_ns, _ in periods:
        name = _name_of(begin_ns)
        connection.execute(text(f"CREATE TABLE {name} (LIKE {MODEL_SPANS} INCLUDING ALL)"))
        created.append(name)
    # In the order in which writers lock them, which excludes deadlocks. A writer that waited for
    # the default partition alone would then be refused, since its span belongs elsewhere.
    connection.execute(text(f"LOCK TABLE ONLY {LIVE_SPANS} IN SHARE ROW EXCLUSIVE MODE"))
    connection.execute(text(f"LOCK TABLE {DEFAULT_PARTITION} IN ACCESS EXCLUSIVE MODE"))
    for period in periods:
        name = _name_of(period[0])
        _move(connection, _within(period), DEFAULT_PARTITION, name)
        _attach(connection, name, period)
    return created


def _adopt(connection: Connection, period: Period) -> str:
    """Turn the default partition into that of a period, and create a new default partition."""
    name = _name_of(period[0])
    for change in (
        f"ALTER TABLE {LIVE_SPANS} DETACH PARTITION {DEFAULT_PARTITION}",
        f"ALTER TABLE {DEFAULT_PARTITION} RENAME TO {name}",
        f"CREATE TABLE {DEFAULT_PARTITION} (LIKE {MODEL_SPANS} INCLUDING ALL)",
        f"ALTER TABLE {LIVE_SPANS} ATTACH PARTITION {DEFAULT_PARTITION} DEFAULT",
    ):
        connection.execute(text(change))
    _move(connection, f"NOT ({_within(period)})", name, DEFAULT_PARTITION)
    _attach(connection, name, period)
    return name


def _move(connection: Connection, condition: str, source: str, target: str) -> None:
    rows = f"DELETE FROM {source} WHERE {condition} RETURNING *"  # noqa: S608
    connection.execute(text(f"WITH gone AS ({rows}) INSERT INTO {target} SELECT * FROM gone"))  # noqa: S608


def _attach(connection: Connection, name: str, period: Period) -> None:
    begin_ns, end_ns = period
    begin = "MINVALUE" if begin_ns is None else str(begin_ns)
    values = f"FROM ({begin}) TO ({end_ns})"
    connection.execute(
        text(f"ALTER TABLE {LIVE_SPANS} ATTACH PARTITION {name} FOR VALUES {values}")
    )


def _within(period: Period) -> str:
    begin_ns, end_ns = period
    before = f"start_ns < {end_ns}"
    return before if begin_ns is None else f"start_ns >= {begin_ns} AND {before}"


def _name_of(begin_ns: int | None) -> str:
    if begin_ns is None:
        return EARLIER_PARTITION
    return f"spans_{datetime.fromtimestamp(begin_ns // 10**9, UTC):%Y%m%d_%H%M%S}"
