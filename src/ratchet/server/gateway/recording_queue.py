"""Recording queue: batches the spans of calls and retries until the span writer accepts them.

No call is refused because of it. While too many recordings wait for the writer, a new call waits
for a place, in turn; one that waits too long is answered all the same, and its recording goes to
disk until the writer has caught up.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, Protocol

from ratchet.llm import load, loaded
from ratchet.server.gateway.call_tokens import TokenWatch
from ratchet.server.gateway.recording import CallRecording
from ratchet.server.gateway.recording_spool import RecordingSpool
from ratchet.server.gateway.target import GatewayTarget
from ratchet.server.metrics import Metrics
from ratchet.types import SpanRecord

BYTES_PENDING = 16_777_216
"""How many bytes of recordings the writer may hold; their objects take several times as much."""

GATHER_S = 0.02
"""Seconds for which recordings are batched before they are posted: no request waits for them, and
a transaction costs the same for one as for many.
"""

GATHER_MAX = 200
"""Maximum number of recordings in a batch."""

RETRY_S = 0.05
"""Interval between attempts to post to a full writer, in seconds."""

LATE_LIMIT = 1_000
"""Recordings that may wait for the writer; beyond it, new calls wait for a place, and recordings go
to disk.
"""

PLACE_S = 2.0
"""Longest time that a call waits for a place, in seconds."""

WAITING_LIMIT = 4_096
"""Calls that may wait for a place; recordings of further calls go to disk at once."""

MAX_ATTEMPTS = 50_000
"""Maximum number of attempts tracked as having spans that may not be stored yet."""

START_BYTES = 500
"""Rough size of a call's start."""

FLUSH_TIMEOUT_S = 10.0
"""Timeout of `flush`, in seconds."""

_log = logging.getLogger(__name__)


class Writer(Protocol):
    """Protocol of the span writer."""

    @property
    def pending(self) -> int:
        """Number of spans that are not stored yet."""

    def post(self, records: Sequence[SpanRecord]) -> bool:
        """Store spans in the background; False when they were refused."""

    async def flush(self) -> None:
        """Wait until everything pending is stored."""


class RecordingQueue:
    """Batches recordings and posts them to the writer.

    Args:
        writer: Stores spans.
        watch: Takes note of the calls whose tokens are kept or dropped.
        spool: Holds on disk what the writer has no place for; None to hold it in memory.
        metrics: Counts waits, and what goes to disk.
    """

    def __init__(
        self,
        writer: Writer,
        watch: TokenWatch | None = None,
        *,
        spool: RecordingSpool | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._writer = writer
        self._watch = watch or TokenWatch()
        self._spool = spool
        self._metrics = metrics
        self._unflushed: dict[GatewayTarget, None] = {}
        self._batch: list[SpanRecord] = []
        self._batch_bytes = 0
        self._post_timer: asyncio.TimerHandle | None = None
        self._posted: deque[tuple[int, int]] = deque()
        self._posted_count = 0
        self._posted_bytes = 0
        self._backlog: set[asyncio.Task[None]] = set()
        self._late: deque[_LateBatch] = deque()
        self._late_count = 0
        self._places: deque[asyncio.Future[None]] = deque()
        self._posting: asyncio.Task[None] | None = None
        self._progress = asyncio.Event()
        """Set when a late batch has been posted, and then replaced."""

    async def start(self) -> None:
        """Post what an earlier process left on disk."""
        if self._spool is not None:
            self._keep_posting()

    async def place(self) -> None:
        """Wait until there is a place for one more recording, for at most PLACE_S seconds."""
        if self._late_count < LATE_LIMIT and not self._places:
            return
        loop = asyncio.get_running_loop()
        begun = loop.time()
        if len(self._places) < WAITING_LIMIT:
            free: asyncio.Future[None] = loop.create_future()
            self._places.append(free)
            try:
                async with asyncio.timeout(PLACE_S):
                    await free
            except TimeoutError:
                pass
            finally:
                if free in self._places:
                    self._places.remove(free)
        if self._metrics is not None:
            self._metrics.recording_wait(loop.time() - begun)

    def begin(self, recording: CallRecording) -> None:
        """Queue the start of a call that is in a canary."""
        started = recording.started()
        if started is not None:
            self._add(started, START_BYTES)

    def put(self, recording: CallRecording, kind: str = "", message: str = "") -> None:
        """Finish the recording of a call and queue its span.

        Args:
            recording: The recording.
            kind: Error type, empty when there was none.
            message: The error message.
        """
        recording.stop()
        if recording.target.is_attempt:
            self._track(recording.target)
        if loaded():
            self._add(recording.end(kind, message), recording.size)
        else:
            self._schedule(self._price_and_add(recording, kind, message))

    async def flush(self, target: GatewayTarget) -> None:
        """Wait until the queued spans of an attempt are stored, for at most FLUSH_TIMEOUT_S."""
        if target not in self._unflushed:
            return
        try:
            async with asyncio.timeout(FLUSH_TIMEOUT_S):
                # The first pass waits for prices, the second for what goes to disk.
                for _ in range(2):
                    self._post_batch()
                    if self._backlog:
                        await asyncio.wait(list(self._backlog))
                last = self._late[-1] if self._late else None
                while any(late is last for late in self._late) or self._on_disk:
                    await self._progress.wait()
                await self._writer.flush()
            self._unflushed.pop(target, None)
        except TimeoutError:
            _log.warning("The calls of %s are not stored after %g s.", target, FLUSH_TIMEOUT_S)

    async def close(self, timeout_s: float) -> None:
        """Post everything within a bounded time; the rest waits on disk."""
        self._post_batch()
        try:
            async with asyncio.timeout(timeout_s):
                while under_way := [*self._backlog, *([self._posting] if self._posting else [])]:
                    await asyncio.wait(under_way)
                    self._post_batch()
        except TimeoutError:
            under_way = [*self._backlog, *([self._posting] if self._posting else [])]
            for task in under_way:
                task.cancel()
            await asyncio.wait(under_way)
        left, self._late = list(self._late), deque()
        for late in left:
            await self._to_disk(late.records)
        if self._spool is not None:
            if self._spool.count:
                _log.warning(
                    "%d recorded calls wait on disk; the next server stores them.",
                    self._spool.count,
                )
            await self._spool.close()

    @property
    def _on_disk(self) -> int:
        return self._spool.count if self._spool is not None else 0

    def _add(self, record: SpanRecord, size: int) -> None:
        self._watch.note(record)
        self._batch_bytes += size
        self._batch.append(record)
        if len(self._batch) >= GATHER_MAX:
            self._post_batch()
        elif self._post_timer is None:
            loop = asyncio.get_running_loop()
            self._post_timer = loop.call_later(GATHER_S, self._post_batch)

    def _post_batch(self) -> None:
        if self._post_timer is not None:
            self._post_timer.cancel()
            self._post_timer = None
        records, self._batch = self._batch, []
        size, self._batch_bytes = self._batch_bytes, 0
        if not records or (not self._late and self._post(records, size)):
            return
        if self._late_count >= LATE_LIMIT and self._spool is not None:
            self._schedule(self._to_disk(records))
            return
        self._late.append(_LateBatch(records, size))
        self._late_count += len(records)
        self._keep_posting()

    def _post(self, records: list[SpanRecord], size: int) -> bool:
        waiting = self._writer.pending
        # The writer stores in order of posting, so the newest are those still pending.
        while self._posted and self._posted_count - self._posted[0][0] >= waiting:
            count, stored = self._posted.popleft()
            self._posted_count -= count
            self._posted_bytes -= stored
        if self._posted_bytes >= BYTES_PENDING or not self._writer.post(records):
            return False
        self._posted.append((len(records), size))
        self._posted_count += len(records)
        self._posted_bytes += size
        return True

    def _schedule(self, work: Coroutine[Any, Any, None]) -> None:
        def done(task: asyncio.Task[None]) -> None:
            self._backlog.discard(task)
            if not task.cancelled() and task.exception() is not None:
                _log.error("Calls are not recorded.", exc_info=task.exception())

        task = asyncio.get_running_loop().create_task(work)
        self._backlog.add(task)
        task.add_done_callback(done)

    def _keep_posting(self) -> None:
        if self._posting is None:
            self._posting = asyncio.get_running_loop().create_task(self._post_late())

    def _track(self, target: GatewayTarget) -> None:
        if len(self._unflushed) >= MAX_ATTEMPTS:
            # The oldest was never flushed here, and its spans have long been stored.
            del self._unflushed[next(iter(self._unflushed))]
        self._unflushed[target] = None

    async def _price_and_add(self, recording: CallRecording, kind: str, message: str) -> None:
        if not loaded():
            await asyncio.get_running_loop().run_in_executor(None, load)
            # The price table is permanent, so exclude it from garbage collection.
            gc.freeze()
        self._add(recording.end(kind, message), recording.size)

    async def _post_late(self) -> None:
        """Post late recordings, then those on disk, as the writer accepts them."""
        try:
            while self._late or await self._post_from_disk():
                while self._late:
                    late = self._late[0]
                    await self._post_at_last(late.records, late.size)
                    self._late.popleft()
                    self._late_count -= len(late.records)
                    self._give_places()
                    self._note_progress()
        except OSError:
            _log.exception("Recorded calls on disk cannot be read")
        finally:
            self._posting = None

    async def _post_from_disk(self) -> bool:
        """Post the oldest recordings on disk, and remove them once they are stored."""
        first = await self._spool.first() if self._spool is not None else None
        if first is None or self._spool is None:
            return False
        await self._post_at_last(first.records, first.size)
        await self._writer.flush()
        await self._spool.done()
        self._note_progress()
        return True

    async def _post_at_last(self, records: list[SpanRecord], size: int) -> None:
        while not self._post(records, size):  # noqa: ASYNC110 - the writer has no event for this
            await asyncio.sleep(RETRY_S)

    async def _to_disk(self, records: list[SpanRecord]) -> None:
        """Keep recordings on disk; without a disk they are lost, and counted."""
        try:
            if self._spool is None:
                raise OSError("there is no spool")
            await self._spool.put(records)
        except OSError as error:
            _log.error("%d calls could not be recorded: %s.", len(records), error)
            if self._metrics is not None:
                self._metrics.spans_refused(len(records))
            return
        if self._metrics is not None:
            self._metrics.recordings_spooled(len(records))
        self._keep_posting()

    def _give_places(self) -> None:
        for _ in range(min(len(self._places), LATE_LIMIT - self._late_count)):
            free = self._places.popleft()
            if not free.done():
                free.set_result(None)

    def _note_progress(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()


class _LateBatch(NamedTuple):
    """Recordings that the writer had no place for."""

    records: list[SpanRecord]
    size: int
