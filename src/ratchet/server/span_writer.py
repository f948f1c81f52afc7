"""Span writer: whatever spans gather while one transaction is under way share the next.

A transaction costs the same for one span as for a hundred, and SQLite has one writer. So there is
one transaction at a time, in a thread of its own, and those who wait for it wait together.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import msgspec

from ratchet.llm import with_price
from ratchet.server.metrics import Metrics
from ratchet.server.problems import Problem, problem_of
from ratchet.types import RatchetError, SpanRecord, StoreError

BATCH = 2_000
"""Spans in one transaction at most: what waits for it waits a bounded time."""

PATIENCE_S = 2.0
"""How long one transaction tries a store that is locked or away, in seconds."""

BACK_OFF_S = (0.1, 5.0)
"""Shortest and longest pause between tries to store what was posted, in seconds."""

ANSWER_S = 30.0
"""How long a writer waits for his spans, in seconds; they may yet be stored after that."""

REFUSALS = 3
"""How often the store may refuse the same spans while it takes others, before they are given up."""

DRAIN_S = 10.0
"""How long `close` goes on trying to store what is pending, in seconds."""

_log = logging.getLogger(__name__)


class SpanRepository(Protocol):
    """What is needed of `store.spans`."""

    def put(self, records: Sequence[SpanRecord], *, patience_s: float = ...) -> int:
        """Store spans in one transaction; return how many were new."""


class SpanStore(Protocol):
    """What is needed of a store."""

    @property
    def spans(self) -> SpanRepository:
        """The spans of the store."""


class _PendingSpans:
    """Some spans of one writer, which go into one transaction."""

    __slots__ = ("ended", "records", "waits")

    def __init__(
        self, records: Sequence[SpanRecord], ended: asyncio.Future[None], waits: bool
    ) -> None:
        self.records = records
        self.ended = ended
        """Set when the spans are stored, or fails when they are given up."""
        self.waits = waits
        """Whether somebody awaits the outcome, and tries again himself."""


class _Retry:
    """Parts that the store did not take, to be tried again together."""

    __slots__ = ("parts", "refusals", "stored_before")

    def __init__(self, parts: list[_PendingSpans], stored_before: int) -> None:
        self.parts = parts
        self.stored_before = stored_before
        """How many transactions had succeeded when these failed last."""
        self.refusals = 0
        """How often these failed while others succeeded."""


class SpanWriter:
    """Group commit of spans. For one event loop; its methods are called in it.

    Args:
        store: Where the spans go.
        pending_limit: Spans that may wait at once; beyond it, new ones are refused.
        metrics: Counts what is stored and what is refused.
        redact: What becomes of each record before it is stored.
    """

    def __init__(
        self,
        store: SpanStore,
        *,
        pending_limit: int = 50_000,
        metrics: Metrics | None = None,
        redact: Callable[[SpanRecord], SpanRecord] | None = None,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._redact = redact
        self._limit = pending_limit
        self._fresh: deque[_PendingSpans] = deque()
        self._retries: deque[_Retry] = deque()
        self._pending = 0
        self._stored = 0
        self._open: set[asyncio.Future[None]] = set()
        self._wake = asyncio.Event()
        self._pause_s = 0.0
        self._try_again_at = 0.0
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._thread: ThreadPoolExecutor | None = None

    @property
    def pending(self) -> int:
        """Spans that are not stored yet."""
        return self._pending

    async def start(self) -> None:
        """Begin to write; call it once."""
        self._thread = ThreadPoolExecutor(1, "span-writer")
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Store what is pending, as far as the store takes it within a bound, and end."""
        self._closing = True
        task, thread = self._task, self._thread
        if task is None or thread is None:
            return
        if self._open:
            await asyncio.wait(list(self._open), timeout=DRAIN_S)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        self._task = None
        lost = self._pending
        for part in (*self._fresh, *(part for again in self._retries for part in again.parts)):
            self._end(part, StoreError("The server ended before the spans were stored."))
        self._fresh.clear()
        self._retries.clear()
        thread.shutdown(wait=False, cancel_futures=True)
        if lost:
            _log.error("%d spans could not be stored before the server ended.", lost)

    async def write(self, records: Sequence[SpanRecord]) -> None:
        """Store spans; they are committed when this returns.

        Raises:
            Problem: 429 when too much is pending, 503 when the store cannot be written, 422 when
                it cannot hold one of the spans. Some of the spans may be stored then; the same
                again are not stored twice.
        """
        if not records:
            return
        if self._closing or self._task is None:
            raise Problem(503, "The server is shutting down.", headers={"retry-after": "1"})
        if self._full(len(records)):
            self._refused(len(records))
            raise Problem(
                429,
                f"{self._pending} spans wait to be stored, and {self._limit} may.",
                hint="Send them again later.",
                headers={"retry-after": "1"},
            )
        ended = self._enqueue(records, waits=True)
        _, missing = await asyncio.wait(ended, timeout=ANSWER_S)
        if missing:
            raise Problem(503, "The store did not answer in time.", headers={"retry-after": "1"})
        for each in ended:
            try:
                each.result()
            except RatchetError as error:
                raise problem_of(error) from error

    def post(self, records: Sequence[SpanRecord]) -> bool:
        """Have spans stored without waiting; they are tried again while the store is away.

        Returns:
            False when they were refused, since too much is pending or the server ends.
        """
        if not records:
            return True
        if self._closing or self._task is None or self._full(len(records)):
            self._refused(len(records))
            return False
        self._enqueue(records, waits=False)
        return True

    async def flush(self) -> None:
        """Wait until all that is pending now is stored or given up."""
        if self._open:
            await asyncio.wait(list(self._open))

    def _full(self, count: int) -> bool:
        # What is larger than the limit gets in when nothing else waits.
        return self._pending > 0 and self._pending + count > self._limit

    def _refused(self, count: int) -> None:
        if self._metrics is not None:
            self._metrics.spans_refused(count)

    def _enqueue(self, records: Sequence[SpanRecord], *, waits: bool) -> list[asyncio.Future[None]]:
        loop = asyncio.get_running_loop()
        ended: list[asyncio.Future[None]] = []
        for start in range(0, len(records), BATCH):
            some = records[start : start + BATCH] if len(records) > BATCH else records
            future = loop.create_future()
            # A writer who went away reads no outcome; that is nothing to complain about.
            future.add_done_callback(_read)
            ended.append(future)
            self._fresh.append(_PendingSpans(some, future, waits))
        self._open.update(ended)
        self._pending += len(records)
        self._wake.set()
        return ended

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        turn = True
        while True:
            due = self._retries and loop.time() >= self._try_again_at
            if due and (turn or not self._fresh):
                turn = False  # what is new comes next, and shows whether the store works
                await self._retry(self._retries.popleft())
            elif self._fresh:
                turn = True
                parts = self._next()
                error = await self._put(parts)
                if error is not None:
                    await self._failed(parts, error)
            else:
                self._wake.clear()
                left = self._try_again_at - loop.time() if self._retries else None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._wake.wait()

    def _next(self) -> list[_PendingSpans]:
        parts = [self._fresh.popleft()]
        size = len(parts[0].records)
        while self._fresh and size + len(self._fresh[0].records) <= BATCH:
            parts.append(self._fresh.popleft())
            size += len(parts[-1].records)
        return parts

    async def _put(self, parts: list[_PendingSpans]) -> Exception | None:
        """Store parts in one transaction; return why that was not possible."""
        records = parts[0].records
        if len(parts) > 1:
            records = [record for part in parts for record in part.records]
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._store_some, records)
        except asyncio.CancelledError:
            self._fresh.extendleft(reversed(parts))
            raise
        except Exception as error:  # whatever it is, it must not end the writer
            return error
        self._stored += 1
        if self._metrics is not None:
            self._metrics.spans_stored(len(records))
        for part in parts:
            self._end(part)
        return None

    def _store_some(self, records: Sequence[SpanRecord]) -> None:
        # In the thread, where it keeps no request waiting.
        if self._redact is not None:
            records = list(map(self._redact, records))
        records = [_priced(record) if record.rollout_id else record for record in records]
        self._store.spans.put(records, patience_s=PATIENCE_S)

    async def _failed(self, parts: list[_PendingSpans], error: Exception) -> None:
        """Tell those who wait; keep what was posted for another try."""
        if not isinstance(error, StoreError):
            # One of the spans is at fault: the others must not suffer for it.
            if len(parts) == 1:
                self._give_up(parts[0], error)
                return
            for part in parts:
                alone = await self._put([part])
                if alone is not None:
                    await self._failed([part], alone)
            return
        kept = [part for part in parts if not part.waits]
        for part in parts:
            if part.waits:
                self._end(part, error)
        if kept:
            _log.warning("%d spans wait for the store: %s", _count(kept), error)
            self._retries.append(_Retry(kept, self._stored))
            self._back_off()

    async def _retry(self, again: _Retry) -> None:
        parts = again.parts
        error = await self._put(parts)
        if error is None:
            self._pause_s = 0.0
            return
        if not isinstance(error, StoreError):
            await self._failed(parts, error)
            return
        self._back_off()
        if self._stored > again.stored_before:
            again.refusals += 1
            again.stored_before = self._stored
        if again.refusals < REFUSALS:
            self._retries.append(again)
        elif len(parts) > 1:  # the store works, and yet it refuses these: find out which of them
            half = len(parts) // 2
            self._retries.append(_Retry(parts[:half], self._stored))
            self._retries.append(_Retry(parts[half:], self._stored))
        else:
            self._give_up(parts[0], error)

    def _back_off(self) -> None:
        shortest, longest = BACK_OFF_S
        self._pause_s = min(max(self._pause_s * 2, shortest), longest)
        self._try_again_at = asyncio.get_running_loop().time() + self._pause_s

    def _give_up(self, part: _PendingSpans, error: Exception) -> None:
        self._refused(len(part.records))
        if not part.waits:
            _log.error("%d spans cannot be stored: %s", len(part.records), error)
        self._end(part, error)

    def _end(self, part: _PendingSpans, error: Exception | None = None) -> None:
        self._pending -= len(part.records)
        self._open.discard(part.ended)
        if not part.ended.done():
            if error is None:
                part.ended.set_result(None)
            else:
                part.ended.set_exception(error)


def _count(parts: Sequence[_PendingSpans]) -> int:
    return sum(len(part.records) for part in parts)


def _read(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()


def _priced(record: SpanRecord) -> SpanRecord:
    """With the dollars of its call: they are part of what its rollout costs from now on."""
    return msgspec.structs.replace(record, span=with_price(record.span))
