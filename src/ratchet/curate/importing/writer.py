"""Stores imported records: redacted and in ordered batches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import msgspec

from ratchet.curate.importing.records import ImportedRecords
from ratchet.observe.redaction import Redactor
from ratchet.types import Feedback, Rollout, Score, SpanRecord

SPANS_PER_BATCH = 500
"""Approximate spans per batch, which is one transaction or request."""


class _Spans(Protocol):
    def put(self, records: Sequence[SpanRecord]) -> int: ...


class _Feedback(Protocol):
    def add(self, items: Sequence[Feedback], now: float) -> int: ...


class _Rollouts(Protocol):
    def create(self, items: Sequence[Rollout], now: float) -> int: ...


class _Scores(Protocol):
    def add(self, items: Sequence[tuple[str, Score]], now: float) -> None: ...


class ImportTarget(Protocol):
    """Destination of an import: a store, or a client of a server."""

    @property
    def spans(self) -> _Spans:
        """Repository of spans."""

    @property
    def feedback(self) -> _Feedback:
        """Repository of feedback."""

    @property
    def rollouts(self) -> _Rollouts:
        """Repository of rollouts."""

    @property
    def scores(self) -> _Scores:
        """Repository of scores."""


class ImportWriter:
    """Batches imported records and stores them.

    Args:
        target: Destination; None to only count.
        redactor: Redacts the records.
    """

    def __init__(self, target: ImportTarget | None, redactor: Redactor) -> None:
        self._target = target
        self._redactor = redactor
        self._waiting: list[ImportedRecords] = []
        self._size = 0
        self._traces: set[int] = set()
        self.read: Counter[str] = Counter()
        """Number of records read, by type."""
        self.new: Counter[str] = Counter()
        """Number of new records, if the destination reports it."""
        self.last_trace = ""
        """Id of a trace in the last batch."""

    @property
    def is_full(self) -> bool:
        """Whether the batch is full."""
        return self._size >= SPANS_PER_BATCH

    def add(self, imported: ImportedRecords) -> None:
        """Add the records of a value to the batch."""
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
        """Store the batch.

        Raises:
            RatchetError: The destination refuses it, or cannot be reached.
        """
        waiting, self._waiting, self._size = self._waiting, [], 0
        if self._target is None or not waiting:
            return
        redact = self._redactor
        now = time.time()
        rollouts = [self._redacted(rollout) for records in waiting for rollout in records.rollouts]
        if rollouts:  # first, since spans and scores refer to them
            self.new["rollouts"] += self._target.rollouts.create(rollouts, now)
        spans = [redact.record(record) for records in waiting for record in records.spans]
        if spans:
            self.new["spans"] += self._target.spans.put(spans)
            self.last_trace = spans[-1].span.trace_id
        scores = [score for records in waiting for score in records.scores]
        if scores:
            self._target.scores.add(scores, now)
        feedback = [redact.feedback(item) for records in waiting for item in records.feedback]
        if feedback:
            self.new["feedback"] += self._target.feedback.add(feedback, now)

    def _redacted(self, rollout: Rollout) -> Rollout:
        """Redact a rollout completely if it was captured in use, not made from a task file."""
        redact = self._redactor
        return msgspec.structs.replace(
            rollout,
            input=redact.value(rollout.input),
            expected=redact.value(rollout.expected),
            output=redact.value(rollout.output),
            error=redact.text(rollout.error),
        )
