"""Where the spans of one rollout gather until its attempt ends."""

from __future__ import annotations

import contextlib
import math
import numbers
import os
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from ratchet.types import InputError, Score, Span

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from ratchet.observe.step_span import StepSpan

MAX_SPANS = 10_000
"""Spans kept of one attempt; the rest is counted, not kept."""


class Collector:
    """Gathers what one attempt of a rollout emits. Safe to use from several threads."""

    content = True
    tracer = None
    mirror_content = False

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


def emit_reward(value: float, *, name: str = "reward", rationale: str = "") -> None:
    """Give the running rollout a score; outside of rollouts nothing happens.

    Args:
        value: A finite number; best in [0, 1].
        name: Under which name it is kept; the last value of a name holds.
        rationale: Why.

    Raises:
        InputError: The value is not a finite number.
    """
    given: Any = value
    # Real: the numbers of NumPy are such, and no float.
    if not isinstance(given, numbers.Real) or not math.isfinite(given):
        raise InputError(f"The reward {value!r} is not a finite number.")
    collector = current_collector()
    if collector is not None:
        collector.score(
            Score(evaluator=name, version="agent", value=float(given), rationale=rationale)
        )


class Sink(Protocol):
    """What takes finished spans. Its methods return at once and raise nothing."""

    content: bool
    """Whether inputs and outputs are wanted."""
    tracer: Tracer | None
    """The user's own, which makes a span beside each of ours; None where they have none."""
    mirror_content: bool
    """Whether those spans get inputs and outputs too."""

    def take(self, span: StepSpan) -> None:
        """Keep a finished span."""
        ...


_live: Sink | None = None


def set_live(sink: Sink | None) -> None:
    """Record what runs outside of rollouts too, for the whole process."""
    global _live
    _live = sink


def current_sink() -> Any:
    """Where a span that starts here goes: a `Sink`, or None when nothing is recorded."""
    collector = collecting.get()
    if collector is None or (collector.over and _process is not None):
        return _process or _live
    return collector
