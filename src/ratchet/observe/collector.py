"""Where the spans of one rollout gather until its attempt ends."""

from __future__ import annotations

import contextlib
import os
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ratchet.types import Score, Span

if TYPE_CHECKING:
    from ratchet.observe.step_span import StepSpan

MAX_SPANS = 10_000
"""Spans kept of one attempt; the rest is counted, not kept."""


class Collector:
    """Gathers what one attempt of a rollout emits. Safe to use from several threads."""

    content = True
    tracer = None
    content_beside = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[Span] = []
        self._scores: dict[str, Score] = {}
        self.dropped = 0
        """Spans beyond MAX_SPANS."""
        self.blocked = ""
        """Name of the first tool with side effects that the agent called, if any."""
        self.over = False
        """Whether the attempt has ended."""

    def add(self, span: Span) -> None:
        """Keep a finished span."""
        with self._lock:
            if len(self._spans) < MAX_SPANS:
                self._spans.append(span)
            else:
                self.dropped += 1

    def take(self, span: StepSpan) -> None:
        """Keep a finished step."""
        self.add(span.frozen())

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
    collector = collecting.get()
    # As bindings do: a thread that serves several rollouts carries the context of an ended one.
    if collector is None or (collector.over and _process is not None):
        return _process
    return collector


BLOCKED_SUFFIX = ".blocked"
"""A child process of an agent that called a tool with side effects says so in the file of its
inherited binding, with this added to the path."""

_INHERITED = "RATCHET_BINDING"
"""As in bind/, which stands beside this room and cannot be imported."""


def block(tool: str) -> bool:
    """Note that the rollout called a tool with side effects; False when no rollout runs here."""
    collector = current_collector()
    if collector is not None and not collector.blocked:
        collector.blocked = tool
    inherited = os.environ.get(_INHERITED)
    if inherited:
        # Where the note cannot be left the tool does not act all the same.
        with contextlib.suppress(OSError), open(inherited + BLOCKED_SUFFIX, "w") as file:
            file.write(tool)
    return collector is not None or bool(inherited)
