"""Collector: holds the spans and scores of one attempt of a rollout; the sink of live spans."""

from __future__ import annotations

import contextlib
import os
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from ratchet.observe.replay import Replay
from ratchet.types import Score, Span

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from ratchet.observe.releases import ReleaseFollower
    from ratchet.observe.step_span import StepSpan

MAX_SPANS = 10_000
"""Maximum number of spans of one attempt; further ones are only counted."""


class Collector:
    """Collects what one attempt of a rollout emits. Thread-safe.

    Args:
        replay: Recorded results of tools with side effects.
    """

    content = True
    tracer = None
    mirror_content = False
    releases = None

    def __init__(self, replay: Replay | None = None) -> None:
        self._lock = threading.Lock()
        self.replay = replay
        self._spans: list[Span] = []
        self._scores: dict[str, Score] = {}
        self.dropped = 0
        """Number of spans beyond MAX_SPANS."""
        self.blocked = ""
        """Name of the first tool with side effects that the agent called; empty if none."""
        self.over = False
        """Whether the attempt has ended."""

    def add(self, span: Span) -> None:
        """Store a finished span."""
        with self._lock:
            if len(self._spans) < MAX_SPANS:
                self._spans.append(span)
            else:
                self.dropped += 1

    def take(self, span: StepSpan) -> None:
        """Store a finished step."""
        self.add(span.frozen())

    def score(self, score: Score) -> None:
        """Store a score from the agent itself; a later one of the same name replaces it."""
        with self._lock:
            self._scores[score.evaluator] = score

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans so far, in the order in which they ended."""
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
    """Collect for the whole process, in which only one rollout may run at a time."""
    global _process
    _process = collector


def current_collector() -> Collector | None:
    """The collector of the rollout that runs this code, or None."""
    collector = collecting.get()
    # A thread that serves several rollouts may still have the context of an ended one.
    if collector is None or (collector.over and _process is not None):
        return _process
    return collector


BLOCKED_SUFFIX = ".blocked"
"""Suffix of the file, beside that of the inherited binding, in which a child process of an agent
records that it called a tool with side effects."""

_INHERITED = "RATCHET_BINDING"
"""The same as in bind/, which this package may not import."""


def block(tool: str) -> bool:
    """Record that the rollout called a tool with side effects; return False outside rollouts."""
    collector = current_collector()
    if collector is not None and not collector.blocked:
        collector.blocked = tool
    inherited = os.environ.get(_INHERITED)
    if inherited:
        # If the file cannot be written, the tool is blocked all the same.
        with contextlib.suppress(OSError), open(inherited + BLOCKED_SUFFIX, "w") as file:
            file.write(tool)
    return collector is not None or bool(inherited)


def replayed(tool: str, arguments: str) -> tuple[bool, Any]:
    """Whether the running rollout has a recorded result for a tool's call, and the result."""
    collector = current_collector()
    if collector is None or collector.replay is None:
        return False, None
    return collector.replay.take(tool, arguments)


class Sink(Protocol):
    """Receives finished spans. Its methods never block and never raise."""

    content: bool
    """Whether inputs and outputs are recorded."""
    tracer: Tracer | None
    """The user's own tracer, which mirrors each of Ratchet's spans; None if there is none."""
    mirror_content: bool
    """Whether the mirrored spans have inputs and outputs too."""
    releases: ReleaseFollower | None
    """Chooses the versions of the live calls that begin; None in rollouts, which have their own."""

    def take(self, span: StepSpan) -> None:
        """Take a finished span."""
        ...


_live: Sink | None = None


def set_live(sink: Sink | None) -> None:
    """Set the process's sink for spans outside rollouts; None records none."""
    global _live
    _live = sink


def current_sink() -> Any:
    """The `Sink` of a span that starts now; None if nothing is recorded."""
    collector = collecting.get()
    if collector is None or (collector.over and _process is not None):
        return _process or _live
    return collector
