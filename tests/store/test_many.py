"""Many at once: threads, processes, forks, kills, locks, lost connections."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select, text
from tests import interpreters
from tests.store.made import rollout

from ratchet.store import Store, engine
from ratchet.store.statements import OLDEST_QUEUED, QUEUE_OF_ATTEMPT
from ratchet.store.tables import RUNNING, attempts, rollouts, scores
from ratchet.types import Outcome, StoreError


def finished(id: str, fence: int = 1) -> Outcome:
    return Outcome(
        rollout_id=id, fence=fence, status="succeeded", started_at=1, ended_at=2, duration_s=1
    )


def test_threads_never_claim_the_same_attempt_and_leave_none(store: Store) -> None:
    store.rollouts.create([rollout(f"{n}") for n in range(300)], 1.0)

    def take_all(worker: int) -> list[str]:
        mine: list[str] = []
        while claims := store.rollouts.claim("q", f"w{worker}", 7, 60.0, 2.0):
            answers = store.rollouts.finish([finished(c.rollout.id) for c in claims], 3.0)
            assert set(answers.values()) == {"succeeded"}
            mine += [c.rollout.id for c in claims]
        return mine

    with ThreadPoolExecutor(6) as pool:
        taken = list(itertools.chain.from_iterable(pool.map(take_all, range(6))))
    assert sorted(taken) == sorted(f"{n}" for n in range(300))
    assert store.rollouts.counts() == {"succeeded": 300}


def test_threads_that_finish_and_cancel_the_same_rollouts_agree_on_one_end(store: Store) -> None:
    ids = [f"{n}" for n in range(60)]
    store.rollouts.create([rollout(id) for id in ids], 1.0)
    store.rollouts.claim("q", "w", 60, 60.0, 2.0)
    accepted: list[str] = []
    cancelled: list[int] = []

    def finish(part: list[str]) -> None:
        answers = store.rollouts.finish([finished(id) for id in part], 3.0)
        accepted.extend(id for (id, _), status in answers.items() if status)

    def cancel(part: list[str]) -> None:
        cancelled.append(store.rollouts.cancel(part, 3.0))

    # The same rollouts in opposite orders: what deadlocks when locks are taken as they come.
    with ThreadPoolExecutor(4) as pool:
        for start in range(0, 60, 10):
            part = ids[start : start + 10]
            pool.submit(finish, part)
            pool.submit(cancel, part[::-1])
            pool.submit(finish, part[::-1])
    assert len(accepted) == len(set(accepted))
    assert len(accepted) + sum(cancelled) == 60
    counts = store.rollouts.counts()
    assert counts.get("succeeded", 0) == len(accepted)
    assert counts.get("cancelled", 0) == sum(cancelled)


HAMMER = """
    import os, sys
    from ratchet.store import Store
    from ratchet.types import Outcome, Rollout, Score, Span

    url, me = sys.argv[1:]
    say = lambda line: os.write(1, (line + "\\n").encode())
    with Store.open(url) as store:
        for batch in range(1_000_000):
            ids = [f"{me}/{batch}/{n}" for n in range(8)]
            store.rollouts.create(
                [Rollout(id=i, queue="q", candidate_id="c", task_id="t", input=i) for i in ids], 1.0
            )
            say("created " + " ".join(ids))
            claims = store.rollouts.claim("q", me, 8, 60.0, 2.0)
            outcomes = [
                Outcome(
                    rollout_id=c.rollout.id, fence=c.fence, status="succeeded", started_at=2.0,
                    ended_at=3.0, duration_s=1.0, output=c.rollout.id,
                    spans=(Span(trace_id="t", span_id="s", name="n", start_ns=1, end_ns=2),),
                    scores=(Score(evaluator="e", version="1", value=1.0),),
                )
                for c in claims
            ]
            answers = store.rollouts.finish(outcomes, 3.0)
            say("finished " + " ".join(id for (id, _), status in answers.items() if status))
"""


def test_what_two_killed_processes_were_told_is_there_and_nothing_is_half_written(
    sqlite_url: str,
) -> None:
    program = textwrap.dedent(HAMMER)
    told: dict[str, list[str]] = {"created": [], "finished": []}
    for life in range(2):
        hammers = [
            interpreters.Interpreter(
                [sys.executable, "-c", program, sqlite_url, f"{life}-{name}"],
                stdout=subprocess.PIPE,
            )
            for name in ("a", "b")
        ]
        for number, hammer in enumerate(hammers):
            assert hammer.stdout is not None
            lines = list(itertools.islice(hammer.stdout, 10 + 7 * life + number))
            hammer.send_signal(signal.SIGKILL)
            # What it still said before it died counts; a torn last line does not.
            lines += [line for line in hammer.stdout if line.endswith("\n")]
            assert hammer.wait() == -signal.SIGKILL
            hammer.stdout.close()
            for kind, *ids in map(str.split, lines):
                told[kind] += ids

    with Store.open(sqlite_url) as store:
        assert store._database.read(
            lambda c: c.execute(text("PRAGMA integrity_check")).scalars().all()
        ) == ["ok"]
        stored, cursor = store.rollouts.list(limit=10**6)
        assert cursor is None
        by_id = {r.id: r for r in stored}
        assert set(told["created"]) <= set(by_id)
        assert len(told["finished"]) == len(set(told["finished"]))
        assert {by_id[id].status for id in told["finished"]} == {"succeeded"}
        batches = {id.rpartition("/")[0] for id in by_id}
        assert set(by_id) == {f"{batch}/{n}" for batch in batches for n in range(8)}
        scores = store.scores.of(list(by_id))
        for id, found in by_id.items():
            ended = found.status == "succeeded"
            assert found.output == (id if ended else None)
            assert len(store.spans.of(id)) == len(scores[id]) == ended
            tries = [a.status for a in store.rollouts.attempts(id)]
            assert tries == ([] if found.status == "queued" else [found.status])


def in_child(work: Any) -> int:
    """Run `work` in a forked child; its exit code, 0 when nothing was raised."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def test_a_store_goes_on_working_on_both_sides_of_a_fork(store: Store) -> None:
    store.rollouts.create([rollout("before")], 1.0)
    stop = threading.Event()

    def busy() -> int:
        for n in itertools.count():
            store.rollouts.create([rollout(f"parent-{n}")], 1.0)
            if stop.is_set():
                return n + 1
        raise AssertionError

    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(busy)
        for n in range(5):

            def work(n: int = n) -> None:
                assert store._database.engine.pool.checkedin() == 0  # type: ignore[attr-defined]
                store.rollouts.create([rollout(f"child-{n}")], 1.0)
                assert "before" in store.rollouts.get(["before"])
                store.close()

            assert in_child(work) == 0
        stop.set()
        expected = 1 + 5 + made.result()
    assert store.rollouts.counts() == {"queued": expected}


def test_a_fork_that_python_did_not_see_is_noticed(store: Store) -> None:
    store.summary()
    assert store._database.engine.pool.checkedin() == 1  # type: ignore[attr-defined]
    store._database._pid = -1
    store.rollouts.create([rollout("r")], 1.0)
    assert store._database._pid == os.getpid()


def hold_lock(url: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        Path(url.removeprefix("sqlite:///")), isolation_level=None, check_same_thread=False
    )
    connection.execute("BEGIN IMMEDIATE")
    return connection


def impatient(store: Store) -> None:
    @event.listens_for(store._database.engine, "connect")
    def limit(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA busy_timeout = 0")


def test_a_write_waits_for_a_lock_and_reads_do_not(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = hold_lock(sqlite_url)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            other.execute("COMMIT")

    monkeypatch.setattr(engine.time, "sleep", sleep)
    with Store.open(sqlite_url) as store:
        impatient(store)
        assert store.summary()["rollouts"] == {}
        assert store.rollouts.create([rollout("r")], 1.0) == 1
    assert len(pauses) == 3
    other.close()


def test_a_lock_that_stays_is_told(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = hold_lock(sqlite_url)
    clock = itertools.count(step=10)
    monkeypatch.setattr(engine.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(engine.time, "sleep", lambda _: None)
    with Store.open(sqlite_url) as store:
        impatient(store)
        with pytest.raises(StoreError, match=r"ratchet\.db stayed locked by another process"):
            store.rollouts.create([rollout("r")], 1.0)
        other.close()
        assert store.rollouts.create([rollout("r")], 1.0) == 1


@pytest.mark.postgres
def test_a_finish_whose_answer_was_lost_is_not_taken_for_a_refusal(postgres_url: str) -> None:
    import psycopg

    with Store.open(postgres_url) as store:
        store.rollouts.create([rollout("r"), rollout("s")], 1.0)
        store.rollouts.claim("q", "w", 2, 60.0, 1.0)
        dialect = store._database.engine.dialect
        commit, lost = dialect.do_commit, []

        def commit_and_lose(connection: Any) -> None:
            commit(connection)
            if not lost:
                lost.append(True)
                raise psycopg.OperationalError("server closed the connection unexpectedly")

        dialect.do_commit = commit_and_lose  # type: ignore[method-assign]
        assert store.rollouts.finish([finished("r"), finished("s", 7)], 2.0) == {
            ("r", 1): "succeeded",
            ("s", 7): None,
        }
        assert lost
        assert store.rollouts.finish([finished("r")], 2.0) == {("r", 1): None}


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (OLDEST_QUEUED.params(of_queue="q", how_many=1), "ix_rollouts_queued"),
        (
            select(attempts.c.rollout_seq).where(RUNNING).where(QUEUE_OF_ATTEMPT.in_(["q"])),
            "ix_attempts_running",
        ),
        (
            select(rollouts.c.status, text("count(*)")).group_by("status"),
            "COVERING INDEX ix_rollouts_status",
        ),
        (
            select(rollouts.c.status).where(rollouts.c.purpose.between("a", "b")),
            "ix_rollouts_purpose",
        ),
        (
            select(rollouts.c.status).where(rollouts.c.queue == "q").order_by(rollouts.c.seq),
            "ix_rollouts_queue (",
        ),
        (
            select(scores.c.value)
            .join_from(rollouts, scores, rollouts.c.seq == scores.c.rollout_seq)
            .where(rollouts.c.id.in_(["a", "b"]))
            .order_by(scores.c.seq),
            "sqlite_autoindex_rollouts_1",
        ),
    ],
    ids=["claim", "running", "summary", "purpose", "queue", "scores"],
)
def test_what_must_stay_fast_reads_an_index(sqlite_url: str, query: Any, index: str) -> None:
    with Store.open(sqlite_url) as store:
        sql = str(query.compile(store._database.engine, compile_kwargs={"literal_binds": True}))
        plan = store._database.read(lambda c: c.execute(text(f"EXPLAIN QUERY PLAN {sql}")).all())
    assert index in plan[0][3]
