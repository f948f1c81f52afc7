"""Span writer: group commit of spans. Spans that arrive during a transaction share the next.

A transaction costs about the same for one span as for a hundred, and SQLite has one writer. So one
transaction runs at a time, in a thread of its own.
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
from ratchet.server.http_problems import HttpProblem, problem_of
from ratchet.server.metrics import Metrics
from ratchet.store.spans import ReceivedSpans
from ratchet.types import RatchetError, SpanRecord, StoreError
from ratchet.types.wording import counted

SPANS_PER_TRANSACTION = 2_000
"""Maximum number of spans in one transaction, which bounds the time that pending spans wait."""

PATIENCE_S = 2.0
"""Seconds for which one transaction is retried while the store is locked or unavailable."""

BACK_OFF_S = (0.1, 5.0)
"""Shortest and longest pause between attempts to store posted spans, in seconds."""

WRITE_TIMEOUT_S = 30.0
"""Seconds that `write` waits; the spans may still be stored after that."""

MAX_REFUSALS = 3
"""Times that the store may refuse spans, while it accepts others, before they are dropped."""

DRAIN_TIMEOUT_S = 10.0
"""Seconds for which `close` tries to store pending spans."""

_log = logging.getLogger(__name__)


class SpanRepository(Protocol):
    """Protocol of `store.spans`."""

    def receive(self, records: Sequence[SpanRecord], *, patience_s: float = ...) -> ReceivedSpans:
        """Store spans in one transaction."""


class SpanStore(Protocol):
    """Protocol of the store."""

    @property
    def spans(self) -> SpanRepository:
        """The spans of the store."""


class _PendingSpans:
    """Spans of one caller that go into one transaction."""

    __slots__ = ("ended", "records", "waits")

    def __init__(
        self, records: Sequence[SpanRecord], ended: asyncio.Future[int], waits: bool
    ) -> None:
        self.records = records
        self.ended = ended
        """Done when the spans are stored, with the number that the store refused; fails when they
        are given up."""
        self.waits = waits
        """Whether the caller awaits the outcome and does its own retries."""


class _Retry:
    """Parts that the store refused, to be retried together."""

    __slots__ = ("parts", "refusals", "stored_before")

    def __init__(self, parts: list[_PendingSpans], stored_before: int) -> None:
        self.parts = parts
        self.stored_before = stored_before
        """Number of transactions that had succeeded when these parts last failed."""
        self.refusals = 0
        """How often these parts failed while others succeeded."""


class SpanWriter:
    """Group commit of spans, for use from one event loop.

    Args:
        store: Store of the spans.
        pending_limit: Maximum number of pending spans; beyond it, new ones are refused.
        metrics: Counts stored and refused spans.
        redact: Applied to each record before it is stored.
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
        self._open: set[asyncio.Future[int]] = set()
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
        """Start writing; call once."""
        self._thread = ThreadPoolExecutor(1, "span-writer")
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Store pending spans within a bounded time, and stop."""
        self._closing = True
        task, thread = self._task, self._thread
        if task is None or thread is None:
            return
        if self._open:
            await asyncio.wait(list(self._open), timeout=DRAIN_TIMEOUT_S)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        self._task = None
        lost = self._pending
        for part in (*self._fresh, *(part for again in self._retries for part in again.parts)):
            self._end(part, StoreError("The server stopped before the spans were stored."))
        self._fresh.clear()
        self._retries.clear()
        thread.shutdown(wait=False, cancel_futures=True)
        if lost:
            _log.error("%d spans could not be stored before the server stopped.", lost)

    async def write(self, records: Sequence[SpanRecord]) -> int:
        """Store spans; return when they are committed, with the number that the store refused.

        Raises:
            HttpProblem: 429 when too many spans are pending, 503 when the store cannot be written,
                422 when it cannot represent one of the spans. Some of the spans may be stored then;
                sending them again does not duplicate them.
        """
        if not records:
            return 0
        if self._closing or self._task is None:
            raise HttpProblem(503, "The server is shutting down.", headers={"retry-after": "1"})
        if self._full(len(records)):
            self._refused(len(records))
            raise HttpProblem(
                429,
                f"{counted(self._pending, 'span')} are waiting to be stored; the limit is "
                f"{self._limit}.",
                hint="Send them again later.",
                headers={"retry-after": "1"},
            )
        ended = self._enqueue(records, waits=True)
        _, missing = await asyncio.wait(ended, timeout=WRITE_TIMEOUT_S)
        if missing:
            raise HttpProblem(
                503, "The store did not respond in time.", headers={"retry-after": "1"}
            )
        try:
            return sum(task.result() for task in ended)
        except RatchetError as error:
            raise problem_of(error) from error

    def post(self, records: Sequence[SpanRecord]) -> bool:
        """Store spans in the background, retrying while the store is unavailable.

        Returns:
            False when they were refused, because too many are pending or the server shuts down.
        """
        if not records:
            return True
        if self._closing or self._task is None or self._full(len(records)):
            self._refused(len(records))
            return False
        self._enqueue(records, waits=False)
        return True

    async def flush(self) -> None:
        """Wait until everything pending is stored or given up."""
        if self._open:
            await asyncio.wait(list(self._open))

    def _full(self, count: int) -> bool:
        # A request larger than the limit is accepted when nothing else is pending.
        return self._pending > 0 and self._pending + count > self._limit

    def _refused(self, count: int) -> None:
        if self._metrics is not None:
            self._metrics.spans_refused(count)

    def _enqueue(self, records: Sequence[SpanRecord], *, waits: bool) -> list[asyncio.Future[int]]:
        loop = asyncio.get_running_loop()
        ended: list[asyncio.Future[int]] = []
        for start in range(0, len(records), SPANS_PER_TRANSACTION):
            some = (
                records[start : start + SPANS_PER_TRANSACTION]
                if len(records) > SPANS_PER_TRANSACTION
                else records
            )
            future = loop.create_future()
            # Marks exceptions as retrieved, in case the caller is gone.
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
                turn = False  # fresh spans come next, and show whether the store works
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
        while self._fresh and size + len(self._fresh[0].records) <= SPANS_PER_TRANSACTION:
            parts.append(self._fresh.popleft())
            size += len(parts[-1].records)
        return parts

    async def _put(self, parts: list[_PendingSpans]) -> Exception | None:
        """Store parts in one transaction; return the error, if any."""
        records = parts[0].records
        if len(parts) > 1:
            records = [record for part in parts for record in part.records]
        loop = asyncio.get_running_loop()
        try:
            received = await loop.run_in_executor(self._thread, self._store_some, records)
        except asyncio.CancelledError:
            self._fresh.extendleft(reversed(parts))
            raise
        except Exception as error:  # no error may end the writer
            return error
        self._stored += 1
        if self._metrics is not None:
            self._metrics.spans_stored(
                len(records) - len(received.refused) - received.late, late=received.late
            )
        positions, begin = deque(received.refused), 0
        for part in parts:
            begin += len(part.records)
            refused = 0
            while positions and positions[0] < begin:
                positions.popleft()
                refused += 1
            self._end(part, refused)
        return None

    def _store_some(self, records: Sequence[SpanRecord]) -> ReceivedSpans:
        # Runs in the thread, so as not to block requests.
        if self._redact is not None:
            records = list(map(self._redact, records))
        records = [_priced(record) if record.rollout_id else record for record in records]
        return self._store.spans.receive(records, patience_s=PATIENCE_S)

    async def _failed(self, parts: list[_PendingSpans], error: Exception) -> None:
        """Report the error to waiting callers; schedule posted spans for a retry."""
        if not isinstance(error, StoreError):
            # One of the spans is at fault: store the others separately.
            if len(parts) == 1:
                self._give_up(parts[0], error)
                return
            for part in parts:
                alone = await self._put([part])
                if alone is not None:
                    await self._failed([part], alone)
            return
        posted = [part for part in parts if not part.waits]
        for part in parts:
            if part.waits:
                self._end(part, error)
        if posted:
            _log.warning("%d spans could not be stored yet: %s", _count(posted), error)
            self._retries.append(_Retry(posted, self._stored))
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
        if again.refusals < MAX_REFUSALS:
            self._retries.append(again)
        elif len(parts) > 1:  # the store works but refuses these: bisect
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

    def _end(self, part: _PendingSpans, end: int | Exception) -> None:
        self._pending -= len(part.records)
        self._open.discard(part.ended)
        if not part.ended.done():
            if isinstance(end, Exception):
                part.ended.set_exception(end)
            else:
                part.ended.set_result(end)


def _count(parts: Sequence[_PendingSpans]) -> int:
    return sum(len(part.records) for part in parts)


def _read(future: asyncio.Future[int]) -> None:
    if not future.cancelled():
        future.exception()


def _priced(record: SpanRecord) -> SpanRecord:
    """Add the cost in dollars of the span's call, which counts towards the cost of its rollout."""
    return msgspec.structs.replace(record, span=with_price(record.span))
