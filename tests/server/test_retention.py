"""Retention: what is old goes, what is needed stays, and nobody has to wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from sqlalchemy import text

from ratchet.server import background_loop, retention
from ratchet.server.metrics import Metrics
from ratchet.server.retention import MIN_STEP_ROWS, Pruner, Retention
from ratchet.store import Store
from ratchet.store.audit import AuditRow
from ratchet.store.partitions import period_s
from ratchet.store.problems import ScanPlace
from ratchet.store.pruning import PruningStep
from ratchet.types import (
    STAGE_TRANSITIONS,
    Feedback,
    Occurrence,
    Outcome,
    Rollout,
    RolloutStatus,
    Run,
    Score,
    Span,
    SpanRecord,
    StoreError,
)
from ratchet.types.cycle import DAY_S

NOW = 1_000 * DAY_S
DAYS_30 = Retention(
    spans_days=30, rollouts_days=30, feedback_days=30, audit_days=30, events_days=30
)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(bounded())


def sweep(store: Store, kept: Retention = DAYS_30, **options: Any) -> dict[str, int]:
    """Delete all that is old."""
    deleted: dict[str, int] = {}

    async def once() -> None:
        pruner = Pruner(store, kept, clock=lambda: NOW, **options)
        deleted.update(await pruner.sweep())
        await pruner.close()

    run(once)
    return deleted


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "STEP_PAUSES_S", (0.0, 0.0))


def rows_of(store: Store, table: str) -> int:
    query = text(f"SELECT count(*) FROM {table}")
    return int(store._database.read(lambda c: c.execute(query).scalar_one()))


def days_ago(days: float) -> float:
    return NOW - days * DAY_S


def rollout(id: str, **fields: Any) -> Rollout:
    basics = {"queue": "q", "candidate_id": "", "task_id": "t", "input": 1}
    return Rollout(**{"id": id, **basics, **fields})


def over(
    id: str, days: float, purpose: str = "live", status: RolloutStatus = "succeeded"
) -> Rollout:
    """A rollout that ended so many days ago."""
    at = days_ago(days)
    return rollout(id, purpose=purpose, status=status, created_at=at, ended_at=at)


def span(number: int, at: float = 1.0) -> Span:
    return Span(
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        parent_id=None,
        name="s",
        start_ns=int(at * 1e9),
        end_ns=int(at * 1e9),
    )


def left(store: Store) -> set[str]:
    return {found.id for found in store.rollouts.list(limit=10_000)[0]}


def test_old_rollouts_go_with_their_attempts_spans_and_scores(store: Store) -> None:
    store.rollouts.create([rollout("old"), rollout("young")], now=days_ago(40))
    for claim in store.rollouts.claim("q", "w", 2, lease_s=60.0, now=days_ago(40)):
        ended = days_ago(39 if claim.rollout.id == "old" else 29)
        outcome = Outcome(
            rollout_id=claim.rollout.id,
            fence=claim.fence,
            status="succeeded",
            started_at=ended,
            ended_at=ended,
            duration_s=0.0,
            spans=tuple(span(n) for n in range(3)),
            scores=(Score(evaluator="e", version="1", value=1.0),),
        )
        store.rollouts.finish([outcome], now=ended)
    store.rollouts.create([rollout("newest")], now=NOW)
    assert sweep(store)["rollouts"] == 1 + 1 + 3 + 1
    assert left(store) == {"young", "newest"}
    assert len(store.rollouts.attempts("young")) == 1
    assert len(store.spans.of("young")) == 3
    assert store.scores.of(["young"])["young"]
    for table, rows in (("attempts", 1), ("spans", 3), ("scores", 1)):
        assert rows_of(store, table) == rows


def test_rollouts_that_are_not_over_stay_however_old_they_are(store: Store) -> None:
    store.rollouts.create([rollout("running"), rollout("queued")], now=days_ago(400))
    store.rollouts.claim("q", "w", 1, lease_s=60.0, now=days_ago(400))
    store.rollouts.create([rollout("cancelled")], now=days_ago(400))
    store.rollouts.cancel(["cancelled"], now=days_ago(399))
    ended: tuple[RolloutStatus, ...] = ("failed", "timed_out", "crashed", "inconclusive")
    store.rollouts.create([over(s, 31, status=s) for s in ended], now=NOW)
    store.rollouts.create([rollout("newest")], now=NOW)
    sweep(store)
    assert left(store) == {"running", "queued", "newest"}
    assert len(store.rollouts.attempts("running")) == 1


def test_a_runners_wrong_clock_lets_no_rollout_go_early(store: Store) -> None:
    store.rollouts.create([rollout("r")], now=days_ago(1))
    (claim,) = store.rollouts.claim("q", "w", 1, lease_s=60.0, now=days_ago(1))
    outcome = Outcome(
        rollout_id="r",
        fence=claim.fence,
        status="succeeded",
        started_at=0.0,
        ended_at=0.0,
        duration_s=0.0,
    )
    store.rollouts.finish([outcome], now=days_ago(1))
    store.rollouts.create([rollout("newest")], now=NOW)
    sweep(store)
    assert left(store) == {"r", "newest"}


def test_evidence_and_rollouts_of_runs_that_may_go_on_stay(store: Store) -> None:
    runs = {f"run-{stage}": stage for stage in STAGE_TRANSITIONS}
    for id, stage in runs.items():
        store.runs.put(Run(id=id, agent="m:f", seed=1, stage=stage, created_at=1.0, updated_at=1.0))
    purposes = [
        form
        for id in (*runs, "unknown")
        for form in (f"learn/{id}", f"improve/{id}/learn", f"baseline/{id}", f"prove/{id}")
    ]
    store.rollouts.create(
        [over(purpose, 100, purpose) for purpose in [*purposes, "eval", "live", "run-learn", ""]],
        now=NOW,
    )
    store.rollouts.create([rollout("newest")], now=NOW)
    sweep(store)
    parts = {purpose: purpose.split("/") for purpose in purposes}
    may_go_on = {"prove", *runs} - {"run-shipped", "run-no_gain"}
    needed = {p for p in purposes if may_go_on & {*parts[p]}}
    assert left(store) == {*needed, "newest"}


def test_each_noun_is_kept_as_long_as_it_is_said_and_for_ever_else(store: Store) -> None:
    def fill() -> None:
        for days in (400.0, 40.0, 20.0, 0.0):
            at = days_ago(days)
            store.events.add([("k", days)], now=at)
            store.audit.add([AuditRow(at=at, action="a", status=200)])
            store.feedback.add(
                [Feedback(id=f"{days}", kind="thumbs", value=1.0, created_at=at)], now=at
            )
            store.spans.put([SpanRecord(span=span(int(days), at), agent="a")])
            store.rollouts.create([over(f"{days}", days)], now=at)
            store.problems.record([occurrence(f"{days}", at)], "failures", ScanPlace(), {})

    fill()
    tables = ("events", "audit", "feedback", "spans", "rollouts", "occurrences")
    for_ever = Retention(audit_days=None, events_days=None)
    assert sweep(store, for_ever) == {"logins": 0}
    assert [rows_of(store, table) for table in tables] == [4] * 6
    assert sweep(store, Retention()) == {"logins": 0, "events": 3, "audit": 1}
    assert sweep(store, DAYS_30) == {
        "logins": 0,
        "events": 0,
        "audit": 1,
        "feedback": 2,
        "spans": 2,
        "occurrences": 2,
        "trace_rows": 0,
        "rollouts": 2,
        "texts": 0,
    }
    assert [rows_of(store, table) for table in tables] == [1, 2, 2, 2, 2, 2]


def occurrence(id: str, at: float) -> Occurrence:
    """A failure in a trace that began at a time."""
    return Occurrence(id=id, trace_id=id, agent="a", kind="error", text="down", at=at)


@pytest.mark.parametrize(
    ("kept", "texts"),
    [
        (Retention(spans_days=30), 1),
        (Retention(rollouts_days=30), 2),
        (Retention(spans_days=30, rollouts_days=90), 1),
    ],
)
def test_long_texts_go_with_the_last_span_that_refers_to_them(
    store: Store, kept: Retention, texts: int
) -> None:
    for number, (days, words) in enumerate([(40.0, "old"), (40.0, "both"), (20.0, "both")]):
        one = msgspec.structs.replace(
            span(number, days_ago(days)), attributes={"ratchet.output": f"{words} " * 500}
        )
        store.spans.put([SpanRecord(span=one, agent="a")])
    sweep(store, kept)
    assert rows_of(store, "texts") == texts


def test_the_newest_row_stays_so_that_no_number_is_given_twice(store: Store) -> None:
    store.events.add([("k", n) for n in range(5)], now=days_ago(99))
    newest = store.events.newest()
    assert sweep(store)["events"] == 4
    store.events.add([("k", "next")], now=NOW)
    assert [event.seq > newest for event in store.events.after(newest)] == [True]


def test_two_servers_of_one_postgres_step_aside_for_one_another(postgres_url: str) -> None:
    with Store.open(postgres_url) as here, Store.open(postgres_url) as there:
        here.events.add([("k", n) for n in range(5)], now=days_ago(99))
        lock = text("SELECT pg_advisory_xact_lock(7236142459)")

        def meanwhile(connection: Any) -> PruningStep:
            connection.execute(lock)
            return there.pruning.events(NOW)

        assert here._database.write(meanwhile) == PruningStep(0, None)
        assert rows_of(here, "events") == 5
        assert there.pruning.events(NOW).deleted == 4


def test_spans_of_an_expired_period_are_dropped_and_counted(postgres_url: str) -> None:
    period = period_s(DAYS_30.spans_days)
    with Store.open(postgres_url) as store:
        for number in range(10):
            store.partitions.ahead(period, days_ago(60) + number * period)
        records = [SpanRecord(span=span(n, days_ago(60 - n)), agent="bot") for n in range(60)]
        store.spans.put(records)
        metrics = Metrics()
        deleted = sweep(store, metrics=metrics)["spans"]
        # Of the period that is half over, spans stay until all of it is.
        assert 30 - period / DAY_S <= deleted <= 31
        assert rows_of(store, "spans") == 60 - deleted
        assert (
            f'ratchet_pruned_rows_total{{noun="spans"}} {deleted}.0' in metrics.render()[1].decode()
        )
        first_ns = store.partitions.existing()[0].begin_ns
        assert first_ns is not None
        assert first_ns / 1e9 <= days_ago(30) < first_ns / 1e9 + period


def test_two_servers_that_prune_at_once_delete_everything_once(store_url: str) -> None:
    with Store.open(store_url) as here, Store.open(store_url) as there:
        here.audit.add([AuditRow(at=1.0, action="a", status=200)] * 3_000)
        here.rollouts.create([over(f"r{n}", 50) for n in range(600)], now=NOW)
        here.rollouts.create([rollout("newest")], now=NOW)
        deleted: list[dict[str, int]] = []
        both = [
            threading.Thread(target=lambda s=s: deleted.append(sweep(s))) for s in (here, there)
        ]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join(60)
        assert len(deleted) == 2
        # One that met the other left the rest of a noun to it.
        deleted.append(sweep(here))
        assert sum(found["audit"] for found in deleted) == 2_999
        assert sum(found["rollouts"] for found in deleted) == 600
        assert left(here) == {"newest"}


def test_keys_of_logins_go_once_they_have_expired_and_other_keys_stay(store: Store) -> None:
    for name, until in (
        ("login:ann", days_ago(0.01)),
        ("login:bob", days_ago(-1)),
        ("runners", days_ago(0.01)),
        ("login: by hand", None),
    ):
        store.keys.create(name, ("read",), days_ago(2), until)
    sweep(store)
    assert [key.name for key in store.keys.list()] == ["login:bob", "runners", "login: by hand"]


def test_it_runs_in_the_background_again_and_again_and_survives_a_failing_store(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retention, "FIRST_SWEEP_S", 0.0)
    monkeypatch.setattr(retention, "SWEEP_INTERVAL_S", 0.0)
    answers: list[PruningStep | Exception] = [
        StoreError("away"),
        ValueError("odd"),
        PruningStep(7, None),
    ]
    with Store.open(sqlite_url) as store:

        async def test() -> None:
            done = asyncio.Event()
            loop = asyncio.get_running_loop()

            def step(before: float, after: int, limit: int) -> PruningStep:
                if not answers:
                    loop.call_soon_threadsafe(done.set)
                    return PruningStep(0, None)
                answer = answers.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                return answer

            monkeypatch.setattr(store.pruning, "events", step)
            pruner = Pruner(store, Retention(audit_days=None))
            await pruner.start()
            await done.wait()
            await pruner.close()

        with caplog.at_level("INFO"):
            run(test)
    assert "retries in an hour: away" in caplog.text
    assert "ValueError: odd" in caplog.text
    assert "{'events': 7}" in caplog.text


def test_it_ends_at_once_between_steps_and_does_not_wait_for_one_that_hangs(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "FIRST_SWEEP_S", 0.0)
    monkeypatch.setattr(retention, "STEP_PAUSES_S", (3600.0, 3600.0))
    monkeypatch.setattr(retention, "MAX_STEP_ROWS", MIN_STEP_ROWS)
    monkeypatch.setattr(background_loop, "CLOSE_TIMEOUT_S", 0.01)
    with Store.open(sqlite_url) as store:
        store.events.add([("k", n) for n in range(1_000)], now=1.0)

        async def between() -> None:
            pruner = Pruner(store)
            await pruner.start()
            while rows_of(store, "events") == 1_000:
                await asyncio.sleep(0)
            await pruner.close()
            assert rows_of(store, "events") == 1_000 - MIN_STEP_ROWS

        run(between)
        go_on, hangs = threading.Event(), threading.Event()

        def hang(before: float, after: int, limit: int) -> PruningStep:
            hangs.set()
            go_on.wait(60)
            return PruningStep(0, None)

        monkeypatch.setattr(store.pruning, "events", hang)

        async def within() -> None:
            pruner = Pruner(store)
            await pruner.start()
            await asyncio.to_thread(hangs.wait, 20)
            await pruner.close()
            go_on.set()

        run(within)
