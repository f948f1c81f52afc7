"""Retention: deletes what is older than it need be, in the background and in small steps."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from ratchet.server.limits import Clock
from ratchet.server.metrics import Metrics
from ratchet.store import Store
from ratchet.store.pruning import PruningStep
from ratchet.types import StoreError

log = logging.getLogger("ratchet.server")

DAY_S = 86_400.0
EVERY_S = 3600.0
"""From the end of one sweep to the next."""

FIRST_S = 60.0
"""From the start to the first sweep; a server that starts has other things to do."""

LONGEST_STEP_S = 0.05
"""What a step may take; the next one is smaller when it took longer."""

SMALLEST, LARGEST = 100, 250
"""Rows of a step. Not fewer: a step's time may be time that it waited for others."""

PAUSES_S = (0.02, 0.2)
"""Shortest and longest pause between steps."""

CLOSE_S = 2.0
"""How long a step that runs may take to end at the server's end."""

Prune = Callable[[int, int], PruningStep]
"""Does a step after a row, with a limit of rows."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Days that each noun is kept; None for ever."""

    spans_days: float | None = None
    """Spans of live traffic, from their end. Those of a rollout go with it."""
    rollouts_days: float | None = None
    """Rollouts that ended, from then, with attempts, spans and scores. Evidence of experiments
    and rollouts of runs that are not over are kept."""
    journal_days: float | None = None
    """Journals of runs that are over, from then; the journal of a run that may go on is kept."""
    candidates_days: float | None = None
    """Candidates, from when they were last proposed. Those that runs, experiments, releases, agents
    or rollouts refer to are kept."""
    datasets_days: float | None = None
    """Datasets, from when they were last put. Those of experiments and of runs that may go on, and
    the newest of each name, are kept."""
    feedback_days: float | None = None
    audit_days: float | None = 365.0
    events_days: float | None = 7.0
    """What `GET /v1/events` can still tell of; no noun is lost with it."""


KEEP_ALL = Retention()


class Pruner:
    """Sweeps through the store from time to time, and deletes what is old.

    Several servers of a store may each have one: they step aside for one another.

    Args:
        store: The store.
        retention: How long what is kept.
        metrics: Where deleted rows are counted.
        clock: Unix seconds.
    """

    def __init__(
        self,
        store: Store,
        retention: Retention = KEEP_ALL,
        *,
        metrics: Metrics | None = None,
        clock: Clock = time.time,
    ) -> None:
        self._store = store
        self._retention = retention
        self._metrics = metrics
        self._clock = clock
        self._limit = SMALLEST
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ratchet-retention")

    async def start(self) -> None:
        """Begin to sweep in the background."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End; a step that runs is waited for, for a bounded time."""
        self._closing.set()
        if self._task is not None:
            _, running = await asyncio.wait({self._task}, timeout=CLOSE_S)
            for task in running:
                task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def sweep(self) -> dict[str, int]:
        """Delete all that is old now.

        Returns:
            Deleted rows by noun.

        Raises:
            StoreError: The store cannot be written; what was deleted is.
        """
        deleted: dict[str, int] = {}
        for noun, prune in self._nouns():
            deleted[noun] = 0
            after: int | None = 0
            while after is not None and not self._closing.is_set():
                step, took_s = await self._step(prune, after)
                after = step.after
                if step.deleted:
                    deleted[noun] += step.deleted
                    if self._metrics is not None:
                        self._metrics.pruned(noun, step.deleted)
                # What others ask of the store comes first: three quarters of the time are theirs.
                if after is not None:
                    await self._pause(min(max(PAUSES_S[0], 3 * took_s), PAUSES_S[1]))
        return deleted

    async def _run(self) -> None:
        pause_s = FIRST_S
        while not await self._pause(pause_s):
            pause_s = EVERY_S
            try:
                deleted = {noun: rows for noun, rows in (await self.sweep()).items() if rows}
                if deleted:
                    log.info("Retention deleted %s.", deleted)
            except StoreError as error:
                log.warning("Retention will try again in an hour: %s", error)
            except Exception:
                log.exception("Retention failed, and will try again in an hour")

    async def _step(self, prune: Prune, after: int) -> tuple[PruningStep, float]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        step = await loop.run_in_executor(self._thread, prune, after, self._limit)
        took_s = loop.time() - begun
        self._limit = next_limit(self._limit, took_s)
        return step, took_s

    async def _pause(self, seconds: float) -> bool:
        """Wait; whether the server ends meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return False
        return True

    def _nouns(self) -> Iterator[tuple[str, Prune]]:
        """What has an end, and how a step of it is done."""
        pruning, retention = self._store.pruning, self._retention
        known: dict[str, tuple[float | None, Callable[[float, int, int], PruningStep]]] = {
            "events": (retention.events_days, pruning.events),
            "audit": (retention.audit_days, pruning.audit),
            "feedback": (retention.feedback_days, pruning.feedback),
            "rollouts": (retention.rollouts_days, pruning.rollouts),
            "spans": (retention.spans_days, self._spans),
            "journal": (retention.journal_days, pruning.journal),
            "candidates": (retention.candidates_days, pruning.candidates),
            "datasets": (retention.datasets_days, pruning.datasets),
            "tasks": (retention.datasets_days, pruning.tasks),
        }
        for noun, (days, prune) in known.items():
            if days is not None:
                yield noun, partial(prune, self._clock() - days * DAY_S)

    def _spans(self, before: float, after: int, limit: int) -> PruningStep:
        deleted = self._store.spans.prune(int(before * 1e9), limit)
        return PruningStep(deleted, after if deleted else None)


def next_limit(limit: int, took_s: float) -> int:
    """Rows of the next step, when one of `limit` rows took so many seconds."""
    if took_s > LONGEST_STEP_S:
        return max(SMALLEST, limit // 2)
    if took_s < LONGEST_STEP_S / 4:
        return min(LARGEST, limit * 2)
    return limit
