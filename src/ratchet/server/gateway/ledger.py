"""Ledger: every span of a call reaches the writer, however much waits for the store already."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from ratchet.llm import load, loaded
from ratchet.server.gateway.recording import Recording
from ratchet.server.gateway.target import Target
from ratchet.server.problems import Problem
from ratchet.types import SpanRecord

BYTES_PENDING = 134_217_728
"""Bytes of recordings that are handed over before it is waited for the store."""

LATE_LIMIT = 1_000
"""Recordings that wait for the writer; while there are more, no new call is taken."""

KEPT_ATTEMPTS = 50_000
"""Attempts that are remembered to have spans which may not be stored yet."""

SETTLE_S = 10.0
"""How long it is waited for an attempt's spans, in seconds."""

_log = logging.getLogger(__name__)


class Writer(Protocol):
    """What is needed of the span writer."""

    def post(self, records: Sequence[SpanRecord]) -> bool:
        """Have spans stored without waiting; False when they were refused."""

    async def write(self, records: Sequence[SpanRecord]) -> None:
        """Store spans; a Problem when that is not possible now."""

    async def flush(self) -> None:
        """Wait until all that is pending is stored."""


class Ledger:
    """Hands recordings to the writer.

    Args:
        writer: Stores spans.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._late: dict[asyncio.Task[None], Target] = {}
        self._fresh: dict[Target, None] = {}
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether so much waits that no new call is to be taken."""
        return len(self._late) >= LATE_LIMIT

    def enter(self, recording: Recording, kind: str = "", message: str = "") -> None:
        """Note the end of a call.

        Args:
            recording: What passed.
            kind: What went wrong, empty when nothing did.
            message: The same in a sentence.
        """
        target = recording.target
        if loaded() and not self._late:
            record = recording.end(kind, message)
            if self._bytes < BYTES_PENDING and self._writer.post((record,)):
                self._bytes += recording.size
                self._remember(target)
                return
            later = self._write(record, recording.size)
        else:
            later = self._price_and_write(recording, kind, message)
        task = asyncio.get_running_loop().create_task(later)
        self._late[task] = target
        task.add_done_callback(self._late.pop)

    async def settle(self, target: Target) -> None:
        """Return when what was entered for an attempt is stored, or after SETTLE_S."""
        late = [task for task, whose in self._late.items() if whose == target]
        if not late and target not in self._fresh:
            return
        try:
            async with asyncio.timeout(SETTLE_S):
                if late:
                    await asyncio.wait(late)
                await self._writer.flush()
            self._fresh.pop(target, None)
        except TimeoutError:
            _log.warning("The calls of %s are not stored after %g s.", target, SETTLE_S)

    async def close(self, patience_s: float) -> None:
        """Hand over what is late, within a bound."""
        if self._late:
            _, missing = await asyncio.wait(list(self._late), timeout=patience_s)
            for task in missing:
                task.cancel()
            if missing:
                _log.error("%d calls could not be recorded before the end.", len(missing))
                await asyncio.wait(missing)

    def _remember(self, target: Target) -> None:
        if target.is_attempt:
            if len(self._fresh) >= KEPT_ATTEMPTS:
                # Nobody settles these here, or the oldest would not be there: they are stored.
                del self._fresh[next(iter(self._fresh))]
            self._fresh[target] = None

    async def _price_and_write(self, recording: Recording, kind: str, message: str) -> None:
        if not loaded():
            await asyncio.get_running_loop().run_in_executor(None, load)
        await self._write(recording.end(kind, message), recording.size)

    async def _write(self, record: SpanRecord, size: int) -> None:
        if self._bytes >= BYTES_PENDING:
            await self._writer.flush()
            self._bytes = 0
        if self._writer.post((record,)):
            self._bytes += size
            if record.rollout_id:
                self._remember(Target(rollout_id=record.rollout_id, fence=record.fence))
            return
        while True:
            try:
                await self._writer.write((record,))
                return
            except Problem as problem:
                if problem.status not in (429, 503):
                    _log.error("A call cannot be recorded: %s", problem.detail)
                    return
                await asyncio.sleep(float(problem.headers.get("retry-after", "1")))
