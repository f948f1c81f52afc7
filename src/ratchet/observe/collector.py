"""Where the spans of one rollout gather until its attempt ends."""

from __future__ import annotations

import threading
from contextvars import ContextVar

from ratchet.types import Score, Span

MAX_SPANS = 10_000
"""Spans kept of one attempt; the rest is counted, not kept."""


class Collector:
    """Gathers what one attempt of a rollout emits. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[Span] = []
        self._scores: dict[str, Score] = {}
        self.dropped = 0
        """Spans beyond MAX_SPANS."""
        self.blocked = ""
        """Name of the first tool with side effects that the agent called, if any."""

    def add(self, span: Span) -> None:
        """Keep a finished span."""
        with self._lock:
            if len(self._spans) < MAX_SPANS:
                self._spans.append(span)
            else:
                self.dropped += 1

    def score(self, score: Score) -> None:
        """Keep a score that the agent itself gave; the last one of a name holds."""
        with self._lock:
            self._scores[score.evaluator] = score

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans so far, in order of their end."""
        with self._lock:
            return tuple(self._spans)

    @property
    def scores(self) -> tuple[Score, ...]:
        """The scores so far."""
        with self._lock:
            return tuple(self._scores.values())


collecting: ContextVar[Collector | None] = ContextVar("ratchet_collector", default=None)
_process: Collector | None = None


def collect_process(collector: Collector | None) -> None:
    """Collect for the whole process: only where one rollout runs at a time."""
    global _process
    _process = collector


def current_collector() -> Collector | None:
    """The collector of the rollout that runs this code, or None."""
    return collecting.get() or _process
