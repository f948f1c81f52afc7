"""Measures what operations cost as the tables grow, on Postgres.

    python benchmarks/parts/growth.py [--quick]

Fills one database per size: N rollouts with an attempt, a score and five spans each, and N live
traces of five spans, so 10 N spans; a third of the traces begins a conversation, and one in a
hundred has feedback. The live traces are spread over 28 days, and the spans have about 400 bytes.
The operations are those of the store, called in turns on every size, so that a busy machine slows
all sizes alike. Postgres runs with its default settings, fsync included. The last line printed is
one JSON object:

- claim_growth, finish_growth, trace_page_growth, search_growth, ingest_growth: median time at the
  largest size over that at the smallest; of several operations, the one that grows most
- ms: the medians in milliseconds, by operation and number of rollouts
- spans, gb, fill_s: size of the largest database, and the seconds that filling it took
- partitions: partitions of its live spans
- bytes_per_span: of live spans, in the tables and their indexes
- cpu_us: microseconds of CPU time per live span stored in batches, and per rollout claimed and
  finished in batches, of the store's code and of Postgres
- delete_s_per_million, drop_s_per_million: seconds to delete a million live spans in small steps,
  and by dropping the partition of a period, which had `dropped` spans
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
from queue_over_http import postgres, serving
from sqlalchemy import text

from ratchet._http import httpx2
from ratchet.server.retention import MAX_STEP_ROWS
from ratchet.server.span_writer import SPANS_PER_TRANSACTION
from ratchet.store import Store
from ratchet.store.partitions import period_s
from ratchet.types import Outcome, Rollout, Score, Span, SpanRecord
from ratchet.types.trace import TraceFilter

SIZES, QUICK_SIZES = (10_000, 100_000, 1_000_000), (2_000, 8_000)
"""Rollouts, and as many live traces."""

ROUNDS, QUICK_ROUNDS = 15, 4
"""Turns; each calls every operation on every size one to five times."""

FILLERS = 4
"""Connections that fill a database at once."""

ROW_BY_ROW = 5_000
"""Spans that are deleted one by one, to compare with dropping a partition."""

QUEUE = "agent-0"
DAYS = 28.0

GROUPS = {
    "claim": ("claim",),
    "finish": ("finish",),
    "trace_page": (
        "page_first",
        "page_deep",
        "page_of_agent",
        "page_since",
        "page_with_errors",
        "page_with_rollouts",
        "page_route",
    ),
    "search": (
        "search_name",
        "search_conversation",
        "search_trace_id",
        "get_trace",
        "conversations",
        "conversation_log",
        "live_spans",
        "rollouts_by_purpose",
    ),
    "ingest": ("ingest_100",),
}
"""Operations by key of the result."""

_ROLLOUTS = """
INSERT INTO rollouts (id, queue, status, fence, failures, max_attempts, purpose, candidate_id,
    task_id, seed, created_at, started_at, ended_at, duration_s, known_usd, reported_usd, unpriced,
    error, metadata, expected, output, input)
SELECT md5('rollout' || n), 'agent-' || n % 20,
    CASE WHEN n % 30 = 0 THEN 'failed' ELSE 'succeeded' END, 1, 0, 3,
    'learn/' || md5('run' || n / 5000), md5('candidate' || n / 500), 'task-' || n % 200, n, t,
    t + 1, t + 4, 3.0, 0.002, 0.0, '{}', '', '{}', '"' || md5('expected' || n) || '"',
    '{"answer": "' || repeat(md5('out' || n), 3) || '"}',
    '{"question": "' || repeat(md5('in' || n), 3) || '"}'
FROM (SELECT n, :begin + :seconds * n / :size AS t FROM generate_series(1, :size) n) numbered
ORDER BY n
"""

_ATTEMPTS = """
INSERT INTO attempts (rollout_seq, fence, status, worker, lease_until, started_at, ended_at, error)
SELECT seq, 1, status, 'host/' || seq % 64 || '/1', started_at + 60, started_at, ended_at, ''
FROM rollouts ORDER BY seq
"""

_SCORES = """
INSERT INTO scores (rollout_seq, evaluator, version, value, unit, rationale, error, created_at)
SELECT seq, 'exact', '1', seq % 2, '', 'The answer is compared with the expected one.', '', ended_at
FROM rollouts ORDER BY seq
"""

_SPANS = """
INSERT INTO spans (rollout_seq, fence, agent, trace_id, span_id, parent_id, name, start_ns, end_ns,
    status, message, attributes, events, conversation_id, usage, head)
SELECT {owner}, {agent}, md5('{kind}' || n), substr(md5(n || '/' || s), 1, 16),
    CASE WHEN s > 0 THEN substr(md5(n || '/0'), 1, 16) END,
    CASE WHEN s = 0 AND n % 997 = 0 THEN 'invoke_agent refunds'
        WHEN s = 0 THEN 'invoke_agent support'
        WHEN s % 2 = 1 THEN 'chat gpt-4.1-mini' ELSE 'execute_tool search' END,
    t + s * 100000000, t + s * 100000000 + CASE WHEN s = 0 THEN 3000000000 ELSE 90000000 END,
    CASE WHEN s = 4 AND n % 50 = 0 THEN 'error' ELSE 'ok' END, '',
    CASE WHEN s % 2 = 1 THEN
        '{{"gen_ai.operation.name":"chat","gen_ai.request.model":"gpt-4.1-mini",'
        '"gen_ai.usage.input_tokens": 812,"gen_ai.usage.output_tokens": 61,'
        '"gen_ai.output.messages":"' || repeat(md5(n || '-' || s), 7) || '"}}'
    ELSE '{{"gen_ai.operation.name":"execute_tool","gen_ai.tool.name":"search",'
        '"gen_ai.tool.call.result":"' || repeat(md5(n || '-' || s), 9) || '"}}' END,
    '[]',
    CASE WHEN s = 0 AND {conversation} THEN 'conversation-' || n / 9 ELSE '' END,
    CASE WHEN s % 2 = 1 THEN '["gpt-4.1-mini","openai",812,61,null,false,0,0,""]' ELSE '' END,
    CASE WHEN s = 0 THEN {head} ELSE 0 END
FROM (
    SELECT n, s, ((:begin + :seconds * n / :size) * 1000000000)::bigint AS t
    FROM generate_series(:first ::int, :last ::int) n, generate_series(0, 4) s
) numbered
ORDER BY n, s
"""

_LIVE_SPANS = _SPANS.format(
    owner="0, 0", agent="'agent-' || n % 20", kind="live", conversation="n % 3 = 0", head=1
)
_SPANS_OF_ROLLOUTS = _SPANS.format(
    owner="n, 1", agent="''", kind="rollout", conversation="false", head=2
)

_FEEDBACK = """
INSERT INTO feedback (id, rollout_id, trace_id, span_id, conversation_id, kind, value, body,
    created_at)
SELECT md5('feedback' || n), '', md5('live' || n), '', '', 'rating', n % 200 / 200.0,
    '{"id":"","kind":"rating","created_at": 1}', :begin + n
FROM generate_series(100, :size, 100) n
"""


def fill(store: Store, size: int, begin: float) -> None:
    """Insert `size` finished rollouts and live traces, the first at `begin` (Unix seconds)."""
    values = {"begin": begin, "seconds": DAYS * 86_400 - 3_600, "size": size}

    def insert(*statements: str, **more: int) -> None:
        for statement in statements:
            query = text(statement)
            used = {
                name: value
                for name, value in {**values, **more}.items()
                if name in query._bindparams
            }
            store._database.write(lambda c, query=query, used=used: c.execute(query, used))

    part = size // FILLERS
    with ThreadPoolExecutor(FILLERS) as pool:
        done = [
            pool.submit(insert, _LIVE_SPANS, first=first + 1, last=first + part)
            for first in range(0, size, part)
        ]
        done.append(pool.submit(insert, _ROLLOUTS, _ATTEMPTS, _SCORES, _FEEDBACK))
        done += [
            pool.submit(insert, _SPANS_OF_ROLLOUTS, first=first + 1, last=first + part)
            for first in range(0, size, part)
        ]
        for each in done:
            each.result()


def partition(store: Store, begin: float, now: float) -> int:
    """Make the partitions that servers would have made since `begin`; return their number."""
    period = period_s(DAYS)
    at = begin
    while at < now:
        store.partitions.ahead(period, at)
        at += period
    store.partitions.ahead(period, now)
    return len(store.partitions.existing())


def settle(store: Store) -> None:
    """Do what autovacuum does in time: collect statistics, and mark full pages."""
    with store._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as open_:
        open_.execute(text("VACUUM ANALYZE"))


class Filled:
    """One filled database, and the operations on it."""

    def __init__(self, store: Store, size: int, begin: float, address: str) -> None:
        self.store = store
        self.size = size
        self._numbers = itertools.count()
        self._claimed: list[Any] = []
        middle_ns = int((begin + DAYS * 43_200) * 1e9)
        recent_ns = int((begin + (DAYS - 1) * 86_400) * 1e9)
        traces, rollouts = store.traces, store.rollouts
        rare = TraceFilter(name="refunds")
        self._client = httpx2.Client(base_url=address)
        self.operations: dict[str, Callable[[], Any]] = {
            "claim": self._claim,
            "finish": self._finish,
            "ingest_100": self._ingest,
            "page_first": traces.list,
            "page_deep": lambda: traces.list(cursor=f"{middle_ns}.1"),
            "page_of_agent": lambda: traces.list(TraceFilter(agent=self._agent())),
            "page_since": lambda: traces.list(TraceFilter(since_ns=recent_ns, until_ns=2**62)),
            "page_with_errors": lambda: traces.list(TraceFilter(errors=True), limit=20),
            "page_with_rollouts": lambda: traces.list(TraceFilter(rollouts=True)),
            "page_route": lambda: self._client.get("/v1/traces").raise_for_status(),
            "search_name": lambda: traces.list(rare, limit=20),
            "search_conversation": lambda: traces.list(
                TraceFilter(conversation_id=self._conversation())
            ),
            "search_trace_id": lambda: traces.find(self._trace_id()[:10]),
            "get_trace": lambda: traces.get(self._trace_id()),
            "conversations": store.conversations.list,
            "conversation_log": lambda: store.conversations.log(self._conversation()),
            "live_spans": lambda: store.spans.live(self._agent()),
            "rollouts_by_purpose": lambda: rollouts.list(purpose=self._purpose()),
        }

    def prepare(self, claims: int) -> None:
        """Queue the rollouts that `claims` claims will take, and those of `run_many`."""
        waiting = [
            Rollout(
                id=f"{queue}-{number}",
                queue=queue,
                candidate_id="c",
                task_id="t",
                input={"question": "Where is my order?" * 5},
            )
            for queue, most in ((QUEUE, claims), ("many", 5_000))
            for number in range(most)
        ]
        self.store.rollouts.create(waiting, time.time())

    def close(self) -> None:
        self._client.close()
        self.store.close()

    def _any(self) -> int:
        """A number of a rollout or trace; the next is far away from it."""
        return next(self._numbers) * 7_919 % self.size + 1

    def _agent(self) -> str:
        return f"agent-{self._any() % 20}"

    def _conversation(self) -> str:
        return f"conversation-{self._any() // 9}"

    def _purpose(self) -> str:
        return f"learn/{md5(f'run{self._any() // 5_000}')}"

    def _trace_id(self) -> str:
        return md5(f"live{self._any()}")

    def _claim(self) -> None:
        taken = self.store.rollouts.claim(QUEUE, "host/1/1", 1, 600.0, time.time())
        if len(taken) != 1:
            raise SystemExit("the queue ran out of rollouts")
        self._claimed += taken

    def _finish(self) -> None:
        claim = self._claimed.pop()
        now = time.time()
        outcome = Outcome(
            rollout_id=claim.rollout.id,
            fence=claim.fence,
            status="succeeded",
            started_at=now - 3,
            ended_at=now,
            duration_s=3.0,
            output="It is on its way.",
            spans=tuple(self._spans(now)),
            scores=(Score(evaluator="exact", version="1", value=1.0),),
        )
        if list(self.store.rollouts.finish([outcome], now).values()) != ["succeeded"]:
            raise SystemExit("a finish was refused")

    def _ingest(self) -> None:
        now = time.time()
        spans = itertools.chain.from_iterable(self._spans(now) for _ in range(20))
        self.store.spans.put([SpanRecord(span=span, agent="agent-0") for span in spans])

    def put_many(self) -> int:
        """Store live spans in the largest batches that a server makes; return their number."""
        for _ in range(10):
            now = time.time()
            traces = (self._spans(now) for _ in range(SPANS_PER_TRANSACTION // 5))
            spans = itertools.chain.from_iterable(traces)
            self.store.spans.put([SpanRecord(span=span, agent="agent-0") for span in spans])
        return 10 * SPANS_PER_TRANSACTION

    def run_many(self) -> int:
        """Claim and finish rollouts without spans, in batches; return their number."""
        done = 0
        while claims := self.store.rollouts.claim("many", "host/1/1", 100, 600.0, time.time()):
            now = time.time()
            outcomes = [
                Outcome(
                    rollout_id=claim.rollout.id,
                    fence=claim.fence,
                    status="succeeded",
                    started_at=now,
                    ended_at=now,
                    duration_s=0.0,
                    output="It is on its way.",
                )
                for claim in claims
            ]
            done += len(self.store.rollouts.finish(outcomes, now))
        return done

    def _spans(self, now: float) -> Iterator[Span]:
        """Spans of one trace."""
        number = next(self._numbers)
        trace_id = f"{number:032x}"[::-1]
        start_ns = int(now * 1e9)
        for step in range(5):
            yield Span(
                trace_id=trace_id,
                span_id=f"{number}-{step}",
                parent_id=f"{number}-0" if step else None,
                name="chat gpt-4.1-mini" if step % 2 else "execute_tool search",
                start_ns=start_ns + step,
                end_ns=start_ns + step + 1_000,
                attributes={
                    "gen_ai.usage.input_tokens": 812,
                    "gen_ai.usage.output_tokens": 61,
                    "gen_ai.request.model": "gpt-4.1-mini",
                    "gen_ai.output.messages": "on its way, " * 20,
                }
                if step % 2
                else {"gen_ai.tool.call.result": "on its way, " * 24},
            )


REPEATED = {"claim": 5, "finish": 5, "page_with_errors": 1, "search_name": 1}
"""Calls in each turn, of operations that are not called thrice."""


def md5(words: str) -> str:
    """As Postgres computes it, for the ids of what was filled in."""
    return hashlib.md5(words.encode(), usedforsecurity=False).hexdigest()


def measure(filled: list[Filled], rounds: int) -> dict[str, dict[int, float]]:
    """Median milliseconds by operation and size; the first turn warms up."""
    took: dict[tuple[str, int], list[float]] = defaultdict(list)
    for turn in range(rounds + 1):
        for one in filled:
            for name, work in one.operations.items():
                for _ in range(REPEATED.get(name, 3)):
                    begin = time.perf_counter()
                    work()
                    if turn:
                        took[name, one.size].append((time.perf_counter() - begin) * 1e3)
    medians: dict[str, dict[int, float]] = defaultdict(dict)
    for (name, size), times in took.items():
        medians[name][size] = round(statistics.median(times), 3)
    return medians


def pruned(store: Store) -> dict[str, float]:
    """Seconds per million live spans: dropped with their partition, and deleted one by one."""
    first = store.partitions.existing()[1]
    half_ns = ((first.begin_ns or 0) + first.end_ns) // 2
    rows = 0
    begun = time.perf_counter()
    # As the server's retention does it, without its pauses.
    while rows < ROW_BY_ROW and (deleted := store.spans.prune(half_ns, MAX_STEP_ROWS)):
        rows += deleted
    row_by_row_s = (time.perf_counter() - begun) / max(rows, 1) * 1e6
    begun = time.perf_counter()
    dropped = store.spans.prune(first.end_ns, MAX_STEP_ROWS, period_s(DAYS))
    drop_s = (time.perf_counter() - begun) / max(dropped, 1) * 1e6
    return {
        "delete_s_per_million": round(row_by_row_s, 1),
        "drop_s_per_million": round(drop_s, 1),
        "dropped": dropped,
    }


def bytes_per_span(store: Store) -> dict[str, int]:
    """Bytes on disk per live span, by table and indexes."""
    query = text(
        "SELECT sum(pg_table_size(relid)), sum(pg_indexes_size(relid)) FROM pg_partition_tree"
        "('spans_live') WHERE isleaf"
    )
    table, indexes = store._database.read(lambda c: c.execute(query).one())
    rows = store._database.read(lambda c: c.scalar(text("SELECT count(*) FROM spans_live")))
    return {"table": round(table / rows), "indexes": round(indexes / rows)}


def cpu_us(store: Store, work: Callable[[], int]) -> dict[str, float]:
    """Microseconds of CPU time that a piece of work takes here and in Postgres.

    Unlike its duration, that depends little on what else the machine does.
    """
    query = text("SELECT pid FROM pg_stat_activity")
    pids = store._database.read(lambda c: c.scalars(query).all())
    servers = [psutil.Process(pid) for pid in pids]

    def in_postgres() -> float:
        return sum(sum(server.cpu_times()[:2]) for server in servers)

    here, there = time.process_time(), in_postgres()
    pieces = work()
    return {
        "store": round((time.process_time() - here) / pieces * 1e6, 1),
        "postgres": round((in_postgres() - there) / pieces * 1e6, 1),
    }


def growths(ms: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    """Of each group, the growth of the operation that grows most."""
    return {
        f"{group}_growth": round(
            max(ms[name][max(ms[name])] / ms[name][min(ms[name])] for name in names), 2
        )
        for group, names in GROUPS.items()
    }


def growth(quick: bool) -> dict[str, Any]:
    """Fill the databases, measure, and return the figures."""
    sizes, rounds = (QUICK_SIZES, QUICK_ROUNDS) if quick else (SIZES, ROUNDS)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        admin = stack.enter_context(postgres(folder))
        opened = []
        for size in sizes:
            name = f"growth_{size}"
            url = admin.replace("/postgres?", f"/{name}?")
            with Store.open(admin) as store:
                engine = store._database.engine.execution_options(isolation_level="AUTOCOMMIT")
                with engine.connect() as connection:
                    connection.execute(text(f"CREATE DATABASE {name}"))
            store = Store.open(url)
            begin, begun = time.time() - DAYS * 86_400, time.perf_counter()
            partitions = partition(store, begin, time.time())
            fill(store, size, begin)
            settle(store)
            fill_s = time.perf_counter() - begun
            say(f"{size:,} rollouts and {10 * size:,} spans filled in {fill_s:,.0f} s")
            address = stack.enter_context(serving(url, folder))
            one = Filled(store, size, begin, address)
            stack.callback(one.close)
            one.prepare(REPEATED["claim"] * (rounds + 1))
            opened.append(one)
        ms = measure(opened, rounds)
        query = text("SELECT pg_database_size(current_database())")
        stored = int(opened[-1].store._database.read(lambda c: c.scalar(query)))
        largest = opened[-1]
        cpu = {
            "span": cpu_us(largest.store, largest.put_many),
            "rollout": cpu_us(largest.store, largest.run_many),
        }
        size_of_span = bytes_per_span(largest.store)
        pruning = pruned(largest.store)
    return {
        **growths(ms),
        "ms": {name: {str(size): value for size, value in by.items()} for name, by in ms.items()},
        "spans": 10 * sizes[-1],
        "gb": round(stored / 1e9, 2),
        "fill_s": round(fill_s),
        "partitions": partitions,
        "bytes_per_span": size_of_span,
        "cpu_us": cpu,
        **pruning,
    }


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    found = growth(parser.parse_args().quick)
    for name, by_size in found["ms"].items():
        say(f"{name:>22} " + " ".join(f"{value:>10.2f} ms" for value in by_size.values()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
