"""Recording queue: batches the spans of calls and retries until the span writer accepts them."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from ratchet.llm import load, loaded
from ratchet.server.gateway.call_tokens import TokenWatch
from ratchet.server.gateway.recording import Recording
from ratchet.server.gateway.target import GatewayTarget
from ratchet.types import SpanRecord

BYTES_PENDING = 134_217_728
"""Most bytes of recordings that the writer may hold."""

GATHER_S = 0.02
"""Seconds for which recordings are batched before they are posted: no request waits for them, and
a transaction costs the same for one as for many.
"""

GATHER_MAX = 200
"""Most recordings in a batch."""

RETRY_S = 0.05
"""Interval between attempts to post to a full writer, in seconds."""

LATE_LIMIT = 5_000
"""Recordings that may wait for the writer; beyond it, new calls are refused."""

MAX_ATTEMPTS = 50_000
"""Most attempts tracked as having spans that may not be stored yet."""

START_BYTES = 500
"""Size of the start of a call, roughly."""

FLUSH_S = 10.0
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
    """

    def __init__(self, writer: Writer, watch: TokenWatch | None = None) -> None:
        self._writer = writer
        self._watch = watch or TokenWatch()
        self._unflushed: dict[GatewayTarget, None] = {}
        self._batch: list[SpanRecord] = []
        self._batch_bytes = 0
        self._post_timer: asyncio.TimerHandle | None = None
        self._posted: deque[tuple[int, int]] = deque()
        self._posted_count = 0
        self._posted_bytes = 0
        self._backlog: set[asyncio.Task[None]] = set()
        self._backlog_count = 0

    @property
    def full(self) -> bool:
        """Whether the backlog is so large that new calls must be refused."""
        return self._backlog_count >= LATE_LIMIT

    def begin(self, recording: Recording) -> None:
        """Queue the start of a call that is in a canary."""
        started = recording.started()
        if started is not None:
            self._add(started, START_BYTES)

    def put(self, recording: Recording, kind: str = "", message: str = "") -> None:
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
            self._schedule(self._price_and_add(recording, kind, message), 1)

    async def flush(self, target: GatewayTarget) -> None:
        """Wait until the queued spans of an attempt are stored, for at most FLUSH_S seconds."""
        if target not in self._unflushed:
            return
        try:
            async with asyncio.timeout(FLUSH_S):
                # The first pass waits for prices, the second for spans that the writer refused.
                for _ in range(2):
                    self._post_batch()
                    if self._backlog:
                        await asyncio.wait(list(self._backlog))
                await self._writer.flush()
            self._unflushed.pop(target, None)
        except TimeoutError:
            _log.warning("The calls of %s are not stored after %g s.", target, FLUSH_S)

    async def close(self, timeout_s: float) -> None:
        """Post everything, within a bounded time."""
        self._post_batch()
        try:
            async with asyncio.timeout(timeout_s):
                while self._backlog:
                    await asyncio.wait(list(self._backlog))
                    self._post_batch()
        except TimeoutError:
            _log.error("%d calls could not be recorded before shutdown.", self._backlog_count)
            missing = list(self._backlog)
            for task in missing:
                task.cancel()
            await asyncio.wait(missing)

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
        if records and not self._post(records, size):
            self._schedule(self._write(records, size), len(records))

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

    def _schedule(self, work: Coroutine[Any, Any, None], count: int) -> None:
        def done(task: asyncio.Task[None]) -> None:
            self._backlog.discard(task)
            self._backlog_count -= count
            if not task.cancelled() and task.exception() is not None:
                _log.error("%d calls are not recorded.", count, exc_info=task.exception())

        task = asyncio.get_running_loop().create_task(work)
        self._backlog.add(task)
        self._backlog_count += count
        task.add_done_callback(done)

    def _track(self, target: GatewayTarget) -> None:
        if len(self._unflushed) >= MAX_ATTEMPTS:
            # The oldest was never flushed here, and its spans have long been stored.
            del self._unflushed[next(iter(self._unflushed))]
        self._unflushed[target] = None

    async def _price_and_add(self, recording: Recording, kind: str, message: str) -> None:
        if not loaded():
            await asyncio.get_running_loop().run_in_executor(None, load)
            # The price table is permanent, so exclude it from garbage collection.
            gc.freeze()
        self._add(recording.end(kind, message), recording.size)

    async def _write(self, records: list[SpanRecord], size: int) -> None:
        """Post records that the writer refused, retrying until it accepts them."""
        while not self._post(records, size):  # noqa: ASYNC110 - the writer has no event for this
            await asyncio.sleep(RETRY_S)
