"""Storing what was read: redacted, in batches that hold their parts together, in order."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import msgspec

from ratchet.curate.importing.records import ImportedRecords
from ratchet.observe.redaction import Redactor
from ratchet.types import Feedback, Rollout, Score, SpanRecord

BATCH = 500
"""Spans that are stored together, about: a transaction, or a request."""


class _Spans(Protocol):
    def put(self, records: Sequence[SpanRecord]) -> int: ...


class _Feedback(Protocol):
    def add(self, items: Sequence[Feedback], now: float) -> int: ...


class _Rollouts(Protocol):
    def create(self, items: Sequence[Rollout], now: float) -> int: ...


class _Scores(Protocol):
    def add(self, items: Sequence[tuple[str, Score]], now: float) -> None: ...


class ImportTarget(Protocol):
    """Where it goes: a store, or the client of a server."""

    @property
    def spans(self) -> _Spans:
        """Spans."""

    @property
    def feedback(self) -> _Feedback:
        """Feedback."""

    @property
    def rollouts(self) -> _Rollouts:
        """Rollouts."""

    @property
    def scores(self) -> _Scores:
        """Scores."""


class ImportWriter:
    """Gathers what was read, and stores it.

    Args:
        target: Where to; None only counts.
        redactor: Takes out what is not to be stored.
    """

    def __init__(self, target: ImportTarget | None, redactor: Redactor) -> None:
        self._target = target
        self._redactor = redactor
        self._waiting: list[ImportedRecords] = []
        self._size = 0
        self._traces: set[int] = set()
        self.read: Counter[str] = Counter()
        """How much was read, by noun."""
        self.new: Counter[str] = Counter()
        """How much of it was not there before, where the target says so."""
        self.last_trace = ""
        """A trace of what was stored last."""

    @property
    def is_full(self) -> bool:
        """Whether it is time to store what has gathered."""
        return self._size >= BATCH

    def add(self, imported: ImportedRecords) -> None:
        """Take what was read of a value."""
        self._waiting.append(imported)
        self._size += len(imported.spans) + len(imported.feedback)
        self.read.update(
            spans=len(imported.spans),
            feedback=len(imported.feedback),
            rollouts=len(imported.rollouts),
            scores=len(imported.scores),
        )
        self._traces.update(hash(record.span.trace_id) for record in imported.spans)
        self.read["traces"] = len(self._traces)

    def flush(self) -> None:
        """Store what has gathered.

        Raises:
            RatchetError: The target does not take it, or cannot be reached.
        """
        waiting, self._waiting, self._size = self._waiting, [], 0
        if self._target is None or not waiting:
            return
        redact = self._redactor
        now = time.time()
        rollouts = [self._redacted(rollout) for each in waiting for rollout in each.rollouts]
        if rollouts:  # first: spans and scores belong to them
            self.new["rollouts"] += self._target.rollouts.create(rollouts, now)
        spans = [redact.record(record) for each in waiting for record in each.spans]
        if spans:
            self.new["spans"] += self._target.spans.put(spans)
            self.last_trace = spans[-1].span.trace_id
        scores = [score for each in waiting for score in each.scores]
        if scores:
            self._target.scores.add(scores, now)
        feedback = [redact.feedback(item) for each in waiting for item in each.feedback]
        if feedback:
            self.new["feedback"] += self._target.feedback.add(feedback, now)

    def _redacted(self, rollout: Rollout) -> Rollout:
        """A rollout that was captured in use, and not made of a task file, is redacted whole."""
        redact = self._redactor
        return msgspec.structs.replace(
            rollout,
            input=redact.value(rollout.input),
            expected=redact.value(rollout.expected),
            output=redact.value(rollout.output),
            error=redact.text(rollout.error),
        )
