"""Partitions of live spans on Postgres: made ahead, dropped whole, and every span has a place."""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text
from tests.store.made import asked, at_once, rollout, rows_of

from ratchet.store import Store, partitions
from ratchet.store.partitions import (
    DEFAULT_PARTITION,
    EARLIER_PARTITION,
    MAX_PERIOD_S,
    MIN_PERIOD_S,
    PERIODS_AHEAD,
    period_s,
)
from ratchet.types import Span, SpanRecord, StoreError
from ratchet.types.trace import TraceFilter

HOUR, DAY, YEAR = 3_600.0, 86_400.0, 365 * 86_400.0
NOW = 20_000 * DAY
"""Unix seconds; the first second of a period of a day."""

_numbers = itertools.count(1)


def live(start: float, lasts: float = 1.0, trace: str = "", span: str = "") -> SpanRecord:
    """A span of a live agent that starts at `start`, Unix seconds."""
    number = next(_numbers)
    start_ns = int(start * 1e9)
    made = Span(
        trace_id=trace or f"{number:032x}",
        span_id=span or f"{number:016x}",
        parent_id=None,
        name="s",
        start_ns=start_ns,
        end_ns=start_ns + int(lasts * 1e9),
    )
    return SpanRecord(span=made, agent="bot")


def names(store: Store) -> list[str]:
    return [one.name for one in store.partitions.existing()]


def stored(store: Store) -> set[str]:
    spans, _ = store.spans.live("bot", 100_000)
    assert len(spans) == len({span.span_id for span in spans})
    return {span.span_id for span in spans}


def ids(records: list[SpanRecord]) -> set[str]:
    return {record.span.span_id for record in records}


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    with Store.open(postgres_url) as opened:
        yield opened


@pytest.mark.parametrize(
    ("days", "seconds"),
    [
        (None, MAX_PERIOD_S),
        (10_000, MAX_PERIOD_S),
        (32, 4 * DAY),
        (1, 3 * HOUR),
        (0.01, MIN_PERIOD_S),
    ],
)
def test_a_period_is_an_eighth_of_the_retention(days: float | None, seconds: float) -> None:
    assert period_s(days) == seconds


def test_servers_that_start_at_once_make_each_partition_once(postgres_url: str) -> None:
    together = threading.Barrier(3)
    made: list[list[str]] = []

    def start() -> None:
        with Store.open(postgres_url) as own:
            together.wait(60)
            made.append(own.partitions.ahead(DAY))

    at_once(start, start, start)
    assert sorted(map(len, made)) == [0, 0, 4]


def test_a_shorter_retention_makes_shorter_periods_from_then_on(store: Store) -> None:
    store.partitions.ahead(30 * DAY, NOW)
    last = store.partitions.existing()[-1].end_ns
    later = last / 1e9 + HOUR
    assert len(store.partitions.ahead(DAY, later)) == 1 + PERIODS_AHEAD
    assert [p.end_ns - p.begin_ns for p in store.partitions.existing() if p.begin_ns == last] == [
        int(DAY * 1e9)
    ]


@pytest.mark.parametrize("is_partitioned", [False, True])
def test_spans_of_any_clock_are_stored_once_and_found(store: Store, is_partitioned: bool) -> None:
    if is_partitioned:
        store.partitions.ahead(DAY, NOW)
    starts = (NOW, NOW + HOUR, NOW - HOUR, NOW - YEAR, NOW + YEAR, 0, 2**62 / 1e9)
    records = [live(start) for start in starts]
    assert store.spans.put(records) == len(starts)
    assert store.spans.put(records) == 0
    assert stored(store) == ids(records)
    listed, _ = store.traces.list()
    newest_first = sorted(records, key=lambda record: record.span.start_ns, reverse=True)
    assert [trace.trace_id for trace in listed] == [one.span.trace_id for one in newest_first]
    for record in records:
        assert store.spans.of_trace(record.span.trace_id) == [record.span]
        assert store.traces.get(record.span.trace_id) is not None
    # Postgres skips a default partition wrongly in some queries, depending on the partitions.
    future = store.traces.list(TraceFilter(since_ns=int((NOW + 100 * DAY) * 1e9)))[0]
    assert len(future) == 2
    assert len(store.traces.list(TraceFilter(until_ns=int(NOW * 1e9)))[0]) == 3
    assert rows_of(store, DEFAULT_PARTITION) == (2 if is_partitioned else len(starts))


def test_spans_stored_before_their_partition_move_to_it_and_stay_single(store: Store) -> None:
    early = [live(NOW + n * HOUR) for n in range(30)]
    store.spans.put(early)
    store.partitions.ahead(DAY, NOW)
    assert rows_of(store, DEFAULT_PARTITION) == 0
    assert store.spans.put(early) == 0
    assert stored(store) == ids(early)


def test_a_store_that_grew_without_a_server_keeps_its_table_as_a_partition(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "MOVED", 5)
    grown = [live(NOW - n * DAY) for n in range(10)]
    ahead = [live(NOW + 1.5 * DAY), live(NOW + YEAR)]
    store.spans.put([*grown, *ahead])
    assert store.partitions.ahead(DAY, NOW)[0] == EARLIER_PARTITION
    assert [rows_of(store, name) for name in names(store)] == [10, 1, 0]
    assert rows_of(store, DEFAULT_PARTITION) == 1
    assert store.spans.put([*grown, *ahead]) == 0
    assert stored(store) == ids([*grown, *ahead])
    # And again, after a time in which the servers did not run.
    later = [live(NOW + n * DAY) for n in range(10, 20)]
    store.spans.put(later)
    assert len(store.partitions.ahead(DAY, NOW + 20 * DAY)) == 1 + PERIODS_AHEAD
    assert rows_of(store, DEFAULT_PARTITION) == 1
    assert stored(store) == ids([*grown, *ahead, *later])


def test_a_period_past_retention_is_dropped_whole_and_nothing_else(store: Store) -> None:
    store.partitions.ahead(DAY, NOW)
    old = [live(NOW + n * HOUR) for n in range(5)]
    long = live(NOW + HOUR, lasts=3 * DAY)
    new = live(NOW + DAY)
    store.rollouts.create([rollout("r")], 1.0)
    of_rollout = SpanRecord(span=old[0].span, rollout_id="r", fence=1)
    store.spans.put([*old, long, new, of_rollout])
    assert store.partitions.drop(int((NOW + DAY - 1) * 1e9)) == 0  # `spans_earlier`, empty
    assert store.partitions.drop(int((NOW + DAY - 1) * 1e9)) is None
    assert store.partitions.drop(int((NOW + DAY) * 1e9)) == 5
    assert names(store) == ["spans_20241005_000000", "spans_20241006_000000"]
    assert stored(store) == ids([long, new])
    assert store.spans.put([long]) == 0
    assert store.spans.of("r") == [old[0].span]
    # One that is sent again after that is old at once.
    assert store.spans.put(old) == 5
    assert store.spans.prune(int((NOW + DAY) * 1e9)) == 5
    assert stored(store) == ids([long, new])


def test_spans_of_a_half_expired_period_are_deleted_when_it_would_stay_too_long(
    store: Store,
) -> None:
    store.partitions.ahead(DAY, NOW)
    spans = [live(NOW + n * HOUR, lasts=0) for n in range(24)]
    store.spans.put(spans)
    noon_ns = int((NOW + 12 * HOUR) * 1e9)
    assert store.spans.prune(noon_ns, grace_s=12 * HOUR) == 0
    assert store.spans.prune(noon_ns, limit=7, grace_s=11 * HOUR) == 7
    assert store.spans.prune(noon_ns) == 5
    assert stored(store) == ids(spans[12:])
    assert names(store)[0] == "spans_20241004_000000"


def test_a_partition_detached_by_a_killed_server_is_deleted_by_the_next(store: Store) -> None:
    store.partitions.ahead(DAY, NOW)
    old, long = live(NOW), live(NOW, lasts=9 * DAY)
    store.spans.put([old, long])
    detach = text("ALTER TABLE spans_live DETACH PARTITION spans_20241004_000000")
    store._database.write(lambda c: c.execute(detach))
    # Sent again while it was hidden.
    store.spans.put([long])
    assert store.spans.prune(int((NOW + DAY) * 1e9)) == 1
    assert stored(store) == ids([long])
    assert rows_of(store, "pg_class WHERE relname = 'spans_20241004_000000'") == 0


def test_two_servers_that_drop_at_once_count_each_span_once(postgres_url: str) -> None:
    with Store.open(postgres_url) as here, Store.open(postgres_url) as there:
        for day in range(6):
            here.partitions.ahead(DAY, NOW + day * DAY)
        here.spans.put([live(NOW + n * DAY / 10) for n in range(60)])
        together = threading.Barrier(2)
        deleted: list[int] = []

        def prune(own: Store) -> None:
            together.wait(60)
            while number := own.spans.prune(int((NOW + 6 * DAY) * 1e9)):
                deleted.append(number)

        at_once(lambda: prune(here), lambda: prune(there))
        # One that meets the other leaves the rest to it, and both may.
        while number := here.spans.prune(int((NOW + 6 * DAY) * 1e9)):
            deleted.append(number)
        assert sum(deleted) == 60
        assert stored(here) == set()


def test_writers_lose_nothing_while_partitions_come_and_go(postgres_url: str) -> None:
    with Store.open(postgres_url) as store:
        stop = threading.Event()
        written: list[SpanRecord] = []
        failures: list[BaseException] = []

        def write() -> None:
            try:
                while not stop.is_set():
                    batch = [live(NOW + n * DAY, lasts=YEAR) for n in range(8)]
                    assert store.spans.put(batch) == 8
                    store.spans.put(batch)
                    written.extend(batch)
                    assert len(store.traces.list(limit=5)[0]) <= 5
            except BaseException as error:
                failures.append(error)

        writers = [threading.Thread(target=write) for _ in range(2)]
        for writer in writers:
            writer.start()
        with Store.open(postgres_url) as other:
            for day in range(8):
                other.partitions.ahead(DAY, NOW + day * DAY)
            for day in range(3):
                # Every span is young yet, so all of them move to the default partition.
                assert not other.partitions.drop(int((NOW + day * DAY) * 1e9))
        stop.set()
        for writer in writers:
            writer.join(60)
        assert failures == []
        assert stored(store) == ids(written)


MANY_SPANS = """
INSERT INTO spans (rollout_seq, fence, agent, trace_id, span_id, name, start_ns, end_ns, status,
    message, attributes, events, conversation_id, head)
SELECT 0, 0, 'agent-' || t % 9, md5('t' || t), s::text, 'n', :begin + t * 100000 + s, 2, 'ok',
    '', '{}', '[]', CASE WHEN s = 0 THEN 'c' || t / 3 ELSE '' END, CASE WHEN s = 0 THEN 1 ELSE 0 END
FROM generate_series(1, 4000) t, generate_series(0, 4) s
"""


def test_an_index_of_each_partition_answers_every_question(store: Store) -> None:
    store.partitions.ahead(DAY, NOW)
    begin = {"begin": int(NOW * 1e9)}
    store._database.write(lambda c: c.execute(text(MANY_SPANS), begin))
    # Autovacuum collects statistics of partitions, not of their parent.
    (current,) = (one.name for one in store.partitions.existing() if one.begin_ns == NOW * 1e9)
    store._database.write(lambda c: c.execute(text(f"ANALYZE {current}")))
    trace_id = hashlib.md5(b"t77").hexdigest()
    with asked(store) as statements:
        assert len(store.traces.list(limit=50)[0]) == 50
        assert len(store.traces.list(TraceFilter(agent="agent-3"), limit=50)[0]) == 50
        assert len(store.traces.list(TraceFilter(conversation_id="c77"))[0]) == 3
        assert store.traces.get(trace_id) is not None
        assert store.traces.find(trace_id[:9]) == [trace_id]
        assert len(store.spans.of_trace(trace_id)) == 5
        assert len(store.spans.live("agent-3", 50)[0]) == 50
        assert store.conversations.log("c77") is not None
        assert store.spans.put([live(NOW)]) == 1
    raw = store._database.engine.raw_connection()
    cursor = raw.cursor()
    for sql, values in statements:
        if sql.startswith("SELECT"):
            cursor.execute(f"EXPLAIN {sql}", values)
            plan = "\n".join(row[0] for row in cursor.fetchall())
            assert f"Seq Scan on {current}" not in plan, f"{sql}\n{plan}"
    raw.close()


def test_a_table_that_stays_locked_is_told(store: Store) -> None:
    store.partitions.ahead(DAY, NOW)

    def locked(connection: Any) -> None:
        connection.execute(text("LOCK TABLE spans IN ROW EXCLUSIVE MODE"))
        with pytest.raises(StoreError, match=r"A table of the store .* stayed locked"):
            store.partitions.drop(int((NOW + DAY) * 1e9), patience_s=0)

    store._database.write(locked)
    assert len(names(store)) == 4


def test_on_sqlite_there_are_none(sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store:
        assert store.partitions.ahead(DAY) == []
        assert store.partitions.existing() == []
        assert store.partitions.drop(2**62) is None
