"""The span writer: writers share transactions, nobody hears of what is not stored."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest

from ratchet.server import span_writer
from ratchet.server.http_problems import HttpProblem
from ratchet.server.metrics import Metrics
from ratchet.server.span_writer import SpanWriter
from ratchet.store import Store
from ratchet.store.spans import ReceivedSpans
from ratchet.types import Span, SpanRecord, StoreError

_numbers = itertools.count(1)


def records(count: int, agent: str = "bot") -> list[SpanRecord]:
    return [
        SpanRecord(
            span=Span(
                trace_id=f"{(number := next(_numbers)):032x}",
                span_id=f"{number:016x}",
                name="step",
                start_ns=number,
                end_ns=number,
            ),
            agent=agent,
        )
        for _ in range(count)
    ]


class Watched:
    """A store whose transactions are counted, held up and made to fail."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.sizes: list[int] = []
        """Spans of each transaction that was tried."""
        self.fails: Callable[[Sequence[SpanRecord]], Exception | None] = lambda _: None
        self.open = threading.Event()
        self.open.set()
        self.begun = threading.Event()

    @property
    def spans(self) -> Watched:
        return self

    def receive(self, records: Sequence[SpanRecord], *, patience_s: float = 0.0) -> ReceivedSpans:
        self.sizes.append(len(records))
        self.begun.set()
        assert self.open.wait(60)
        error = self.fails(records)
        if error is not None:
            raise error
        return self._store.spans.receive(records, patience_s=patience_s)

    def count(self, agent: str = "bot") -> int:
        return len(self._store.spans.live(agent, 100_000)[0])


@pytest.fixture
def watched(sqlite_url: str) -> Iterator[Watched]:
    with Store.open(sqlite_url) as store:
        yield Watched(store)


def run(
    watched: Watched,
    work: Callable[[SpanWriter], Awaitable[Any]],
    *,
    metrics: Metrics | None = None,
    **options: Any,
) -> Any:
    """Run `work` with a writer that is closed afterwards."""

    async def main() -> Any:
        writer = SpanWriter(watched, metrics=metrics, **options)
        await writer.start()
        try:
            return await work(writer)
        finally:
            watched.open.set()
            await writer.close()

    return asyncio.run(asyncio.wait_for(main(), 30))


async def until(held: threading.Event) -> None:
    await asyncio.to_thread(held.wait, 20)
    assert held.is_set()


def test_what_was_written_is_stored_and_those_who_wait_share_a_transaction(
    watched: Watched,
) -> None:
    async def work(writer: SpanWriter) -> None:
        watched.open.clear()
        first = asyncio.ensure_future(writer.write(records(1)))
        await until(watched.begun)
        rest = [asyncio.ensure_future(writer.write(records(2))) for _ in range(50)]
        await asyncio.sleep(0)
        assert not first.done()
        watched.open.set()
        await asyncio.gather(first, *rest)
        assert watched.sizes == [1, 100]
        assert watched.count() == 101
        await writer.write([])
        assert len(watched.sizes) == 2

    run(watched, work)


def test_beyond_the_limit_new_spans_are_sent_away(watched: Watched) -> None:
    metrics = Metrics()

    async def work(writer: SpanWriter) -> None:
        watched.open.clear()
        first = asyncio.ensure_future(writer.write(records(12)))  # more than all, into nothing
        await until(watched.begun)
        assert not writer.post(records(1))
        with pytest.raises(HttpProblem) as refused:
            await writer.write(records(5))
        assert refused.value.status == 429
        assert refused.value.headers["retry-after"] == "1"
        watched.open.set()
        await first
        await writer.write(records(5))
        assert watched.count() == 17

    run(watched, work, pending_limit=10, metrics=metrics)
    counted = metrics.render()[1]
    counted = counted if isinstance(counted, str) else counted.decode()
    assert 'outcome="stored"} 17.0' in counted
    assert 'outcome="refused"} 6.0' in counted


def test_when_the_store_fails_those_who_wait_hear_so_and_posted_spans_are_tried_again(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_writer, "BACK_OFF_S", (0.001, 0.01))

    async def work(writer: SpanWriter) -> None:
        watched.fails = lambda _: StoreError("The store is away.", hint="Start it.")
        assert writer.post(records(3, "poster"))
        assert writer.post([])
        waiting = [writer.write(records(2)) for _ in range(3)]
        for error in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(error, HttpProblem)
            assert (error.status, error.headers["retry-after"]) == (503, "1")
            assert error.detail == "The store is away. Start it."
        assert writer.pending == 3
        watched.fails = lambda _: None
        await writer.flush()
        assert (watched.count("poster"), watched.count()) == (3, 0)

    run(watched, work)


def test_a_span_that_cannot_be_stored_fails_its_writer_alone(watched: Watched) -> None:
    async def work(writer: SpanWriter) -> None:
        watched.open.clear()
        first = asyncio.ensure_future(writer.write(records(1)))
        await until(watched.begun)
        good = [asyncio.ensure_future(writer.write(records(2))) for _ in range(3)]
        bad = asyncio.ensure_future(writer.write(records(1, "a" * 300)))
        writer.post(records(1, "b" * 300))
        await asyncio.sleep(0)
        watched.open.set()
        await asyncio.gather(first, *good)
        with pytest.raises(HttpProblem) as refused:
            await bad
        assert refused.value.status == 422
        await writer.flush()
        assert watched.count() == 7

    run(watched, work)


def test_spans_that_a_working_store_refuses_are_given_up_and_the_others_stored(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_writer, "BACK_OFF_S", (0.0, 0.0))

    def refuse(some: Sequence[SpanRecord]) -> Exception | None:
        return StoreError("No.") if any(each.agent == "poison" for each in some) else None

    async def work(writer: SpanWriter) -> None:
        watched.fails = refuse
        watched.open.clear()
        writer.post(records(1))
        await until(watched.begun)
        for agent in ("good", "poison", "good", "good"):
            writer.post(records(2, agent))
        watched.open.set()
        while writer.pending:
            # One that shares a transaction with them hears of it, and would send again.
            with contextlib.suppress(HttpProblem):
                await writer.write(records(1))
        assert (watched.count("good"), watched.count("poison")) == (6, 0)

    run(watched, work)


def test_an_unforeseen_error_reaches_its_writer_and_does_not_end_the_others(
    watched: Watched,
) -> None:
    async def work(writer: SpanWriter) -> None:
        watched.fails = lambda _: ZeroDivisionError("?")
        with pytest.raises(ZeroDivisionError):
            await writer.write(records(1))
        watched.fails = lambda _: None
        await writer.write(records(1))
        assert watched.count() == 1

    run(watched, work)


def test_spans_of_a_writer_that_goes_away_are_stored(watched: Watched) -> None:
    async def work(writer: SpanWriter) -> None:
        watched.open.clear()
        gone = asyncio.ensure_future(writer.write(records(2)))
        await until(watched.begun)
        gone.cancel()
        watched.open.set()
        await writer.flush()
        assert watched.count() == 2
        assert writer.pending == 0

    run(watched, work)


def test_a_store_that_does_not_answer_keeps_no_writer(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_writer, "WRITE_TIMEOUT_S", 0.01)

    async def work(writer: SpanWriter) -> None:
        watched.open.clear()
        with pytest.raises(HttpProblem) as late:
            await writer.write(records(2))
        assert late.value.status == 503

    run(watched, work)
    assert watched.count() == 2, "it was stored in the end; whoever sends it again stores nothing"


def test_closing_stores_what_is_pending_and_takes_nothing_more(watched: Watched) -> None:
    async def main() -> None:
        writer = SpanWriter(watched)
        with pytest.raises(HttpProblem):
            await writer.write(records(1))
        await writer.start()
        watched.open.clear()
        writer.post(records(2500))
        closing = asyncio.ensure_future(writer.close())
        await asyncio.sleep(0)
        assert not writer.post(records(1))
        with pytest.raises(HttpProblem) as refused:
            await writer.write(records(1))
        assert refused.value.status == 503
        watched.open.set()
        await closing
        assert watched.count() == 2500
        await writer.close()

    asyncio.run(main())


def test_closing_does_not_wait_for_a_store_that_is_away(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(span_writer, "DRAIN_TIMEOUT_S", 0.05)

    async def work(writer: SpanWriter) -> None:
        watched.fails = lambda _: StoreError("The store is away.")
        writer.post(records(2))

    run(watched, work)
    assert "2 spans could not be stored before the server stopped" in caplog.text
