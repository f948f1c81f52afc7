"""Retention: deletes expired rows in the background, in small steps."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from ratchet.server.background_loop import BackgroundLoop
from ratchet.server.limits import Clock
from ratchet.server.metrics import Metrics
from ratchet.store import Store
from ratchet.store.partitions import period_s
from ratchet.store.pruning import PruningStep
from ratchet.types import StoreError
from ratchet.types.cycle import DAY_S

log = logging.getLogger("ratchet.server")

SWEEP_INTERVAL_S = 3600.0
"""Seconds between the end of a sweep and the next."""

FIRST_SWEEP_S = 60.0
"""Seconds from start-up to the first sweep."""

MAX_STEP_S = 0.05
"""Target duration of a step in seconds; a longer step makes the next one smaller."""

MIN_STEP_ROWS, MAX_STEP_ROWS = 100, 250
"""Minimum and maximum number of rows of a step. The minimum keeps a step that was slow only because
it waited for a lock from making the next ones tiny."""

STEP_PAUSES_S = (0.02, 0.2)
"""Shortest and longest pause between steps, in seconds."""

Prune = Callable[[int, int], PruningStep]
"""Runs a step. Arguments: last row of the previous step, maximum number of rows to delete."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Retention period of each noun in days; None for no limit."""

    spans_days: float | None = None
    """Spans of live traffic, counted from their end. Spans of a rollout are deleted with it. On
    Postgres they stay up to an eighth longer, at least an hour: until their partition is dropped.
    """
    rollouts_days: float | None = None
    """Ended rollouts, with their attempts, spans and scores, counted from their end. Evidence of
    experiments and rollouts of unfinished runs are kept.
    """
    journal_days: float | None = None
    """Journals of ended runs, counted from the end; journals of resumable runs are kept."""
    candidates_days: float | None = None
    """Candidates, counted from when they were last proposed. Candidates that runs, experiments,
    releases, agents or rollouts refer to are kept.
    """
    datasets_days: float | None = None
    """Datasets, counted from when they were last put. Datasets of experiments and resumable runs,
    and the newest of each name, are kept.
    """
    feedback_days: float | None = None
    audit_days: float | None = 365.0
    events_days: float | None = 7.0
    """History of `GET /v1/events`; no noun is lost with it."""


KEEP_ALL = Retention()


class Pruner(BackgroundLoop):
    """Periodically sweeps the store and deletes expired rows.

    Several servers of a store may each run one; they yield to one another.

    Args:
        store: The store.
        retention: Retention periods.
        metrics: Counts deleted rows.
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
        super().__init__("ratchet-retention")
        self._store = store
        self._retention = retention
        self._metrics = metrics
        self._clock = clock
        self._limit = MIN_STEP_ROWS

    async def sweep(self) -> dict[str, int]:
        """Delete every row that has expired.

        Returns:
            Number of deleted rows by noun.

        Raises:
            StoreError: The store cannot be written; rows deleted before stay deleted.
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
                # Other work has priority: it gets three quarters of the time.
                if after is not None:
                    await self._pause(min(max(STEP_PAUSES_S[0], 3 * took_s), STEP_PAUSES_S[1]))
        return deleted

    async def _run(self) -> None:
        pause_s = FIRST_SWEEP_S
        while not await self._pause(pause_s):
            pause_s = SWEEP_INTERVAL_S
            try:
                deleted = {noun: rows for noun, rows in (await self.sweep()).items() if rows}
                if deleted:
                    log.info("Retention deleted %s.", deleted)
            except StoreError as error:
                log.warning("Retention failed, and retries in an hour: %s", error)
            except Exception:
                log.exception("Retention failed, and retries in an hour")

    async def _step(self, prune: Prune, after: int) -> tuple[PruningStep, float]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        step = await loop.run_in_executor(self._thread, prune, after, self._limit)
        took_s = loop.time() - begun
        self._limit = next_limit(self._limit, took_s)
        return step, took_s

    def _nouns(self) -> Iterator[tuple[str, Prune]]:
        """Nouns that have a retention period, each with the function that runs a step."""
        pruning, retention = self._store.pruning, self._retention
        prune_of: dict[str, tuple[float | None, Callable[[float, int, int], PruningStep]]] = {
            "events": (retention.events_days, pruning.events),
            "audit": (retention.audit_days, pruning.audit),
            "feedback": (retention.feedback_days, pruning.feedback),
            "rollouts": (retention.rollouts_days, pruning.rollouts),
            "spans": (retention.spans_days, self._spans),
            "occurrences": (
                _shortest(retention.rollouts_days, retention.spans_days),
                pruning.occurrences,
            ),
            "trace_rows": (retention.spans_days, pruning.trace_rows),
            "journal": (retention.journal_days, pruning.journal),
            "candidates": (retention.candidates_days, pruning.candidates),
            "datasets": (retention.datasets_days, pruning.datasets),
            "tasks": (retention.datasets_days, pruning.tasks),
            "texts": (_shortest(retention.rollouts_days, retention.spans_days), pruning.texts),
        }
        # A login is a key that ends by itself; who logged in and when stays in the audit log.
        yield "logins", partial(pruning.logins, self._clock())
        for noun, (days, prune) in prune_of.items():
            if days is not None:
                yield noun, partial(prune, self._clock() - days * DAY_S)

    def _spans(self, before: float, after: int, limit: int) -> PruningStep:
        grace_s = period_s(self._retention.spans_days)
        deleted = self._store.spans.prune(int(before * 1e9), limit, grace_s)
        return PruningStep(deleted, after if deleted else None)


def _shortest(*days: float | None) -> float | None:
    return min((period for period in days if period is not None), default=None)


def next_limit(limit: int, took_s: float) -> int:
    """Row limit of the next step, after a step of `limit` rows took `took_s` seconds."""
    if took_s > MAX_STEP_S:
        return max(MIN_STEP_ROWS, limit // 2)
    if took_s < MAX_STEP_S / 4:
        return min(MAX_STEP_ROWS, limit * 2)
    return limit
