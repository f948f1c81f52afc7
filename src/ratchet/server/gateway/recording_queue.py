"""Ledger: every span of a call reaches the writer, however much waits for the store already."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from ratchet.llm import load, loaded
from ratchet.server.gateway.recording import Recording
from ratchet.server.gateway.target import GatewayTarget
from ratchet.types import SpanRecord

BYTES_PENDING = 134_217_728
"""Bytes of recordings that the writer may hold."""

GATHER_S = 0.02
"""How long recordings gather before they are handed over, in seconds: nobody waits for them, and a
transaction costs the same for one as for many."""

GATHER_MAX = 200
"""Recordings that gather at most."""

RETRY_S = 0.05
"""How often it is looked whether the store has caught up, in seconds."""

LATE_LIMIT = 5_000
"""Recordings that wait for the writer; while there are more, no new call is taken."""

MAX_ATTEMPTS = 50_000
"""Attempts that are remembered to have spans which may not be stored yet."""

FLUSH_S = 10.0
"""How long it is waited for an attempt's spans, in seconds."""

_log = logging.getLogger(__name__)


class Writer(Protocol):
    """What is needed of the span writer."""

    @property
    def pending(self) -> int:
        """Spans that are not stored yet."""

    def post(self, records: Sequence[SpanRecord]) -> bool:
        """Have spans stored without waiting; False when they were refused."""

    async def flush(self) -> None:
        """Wait until all that is pending is stored."""


class RecordingQueue:
    """Hands recordings to the writer.

    Args:
        writer: Stores spans.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._unsettled: dict[GatewayTarget, None] = {}
        self._gathered: list[SpanRecord] = []
        self._gathered_bytes = 0
        self._hand_over_at: asyncio.TimerHandle | None = None
        self._posted: deque[tuple[int, int]] = deque()
        self._posted_count = 0
        self._posted_bytes = 0
        self._late: set[asyncio.Task[None]] = set()
        self._late_count = 0

    @property
    def full(self) -> bool:
        """Whether so much waits that no new call is to be taken."""
        return self._late_count >= LATE_LIMIT

    def put(self, recording: Recording, kind: str = "", message: str = "") -> None:
        """Note the end of a call.

        Args:
            recording: What passed.
            kind: What went wrong, empty when nothing did.
            message: The same in a sentence.
        """
        recording.stop()
        if recording.target.is_attempt:
            self._remember(recording.target)
        if loaded():
            self._gather(recording.end(kind, message), recording.size)
        else:
            self._later(self._price_and_gather(recording, kind, message), 1)

    async def flush(self, target: GatewayTarget) -> None:
        """Return when what was entered for an attempt is stored, or after SETTLE_S."""
        if target not in self._unsettled:
            return
        try:
            async with asyncio.timeout(FLUSH_S):
                # First those that wait for prices, then those that the writer refused.
                for _ in range(2):
                    self._hand_over()
                    if self._late:
                        await asyncio.wait(list(self._late))
                await self._writer.flush()
            self._unsettled.pop(target, None)
        except TimeoutError:
            _log.warning("The calls of %s are not stored after %g s.", target, FLUSH_S)

    async def close(self, timeout_s: float) -> None:
        """Hand over everything, within a bound."""
        self._hand_over()
        try:
            async with asyncio.timeout(timeout_s):
                while self._late:
                    await asyncio.wait(list(self._late))
                    self._hand_over()
        except TimeoutError:
            _log.error("%d calls could not be recorded before the end.", self._late_count)
            missing = list(self._late)
            for task in missing:
                task.cancel()
            await asyncio.wait(missing)

    def _gather(self, record: SpanRecord, size: int) -> None:
        self._gathered_bytes += size
        self._gathered.append(record)
        if len(self._gathered) >= GATHER_MAX:
            self._hand_over()
        elif self._hand_over_at is None:
            loop = asyncio.get_running_loop()
            self._hand_over_at = loop.call_later(GATHER_S, self._hand_over)

    def _hand_over(self) -> None:
        if self._hand_over_at is not None:
            self._hand_over_at.cancel()
            self._hand_over_at = None
        records, self._gathered = self._gathered, []
        size, self._gathered_bytes = self._gathered_bytes, 0
        if records and not self._post(records, size):
            self._later(self._write(records, size), len(records))

    def _post(self, records: list[SpanRecord], size: int) -> bool:
        waiting = self._writer.pending
        # What was posted first is stored first: the newest are those that wait.
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

    def _later(self, work: Coroutine[Any, Any, None], count: int) -> None:
        def done(task: asyncio.Task[None]) -> None:
            self._late.discard(task)
            self._late_count -= count
            if not task.cancelled() and task.exception() is not None:
                _log.error("%d calls are not recorded.", count, exc_info=task.exception())

        task = asyncio.get_running_loop().create_task(work)
        self._late.add(task)
        self._late_count += count
        task.add_done_callback(done)

    def _remember(self, target: GatewayTarget) -> None:
        if len(self._unsettled) >= MAX_ATTEMPTS:
            # Nobody settles these here, or the oldest would not be there: they are stored.
            del self._unsettled[next(iter(self._unsettled))]
        self._unsettled[target] = None

    async def _price_and_gather(self, recording: Recording, kind: str, message: str) -> None:
        if not loaded():
            await asyncio.get_running_loop().run_in_executor(None, load)
            # The prices stay for ever: the garbage collector need not walk over them.
            gc.freeze()
        self._gather(recording.end(kind, message), recording.size)

    async def _write(self, records: list[SpanRecord], size: int) -> None:
        """Hand over what the writer does not take now."""
        while not self._post(records, size):  # noqa: ASYNC110 - the writer tells nobody
            await asyncio.sleep(RETRY_S)
