"""Tail sampling: keeps a share of the traces, and all with an error or bad feedback."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

HOLD_S = 60.0
"""How long an unsampled trace is held after its last span, in seconds: an error or bad feedback in
that time keeps it."""

MAX_HELD = 10_000
"""Maximum number of held spans; beyond it the least recently active trace is dropped."""

MAX_WEIGHT = 32 * 1024 * 1024
"""Maximum number of held characters, roughly."""

MAX_PINNED = 20_000
"""Maximum number of traces and conversations remembered as kept."""

_FULL = 1 << 64


class SampledSpan(NamedTuple):
    """A span, and what the sampling decision depends on."""

    trace_id: int
    error: bool
    conversation: str
    weight: int
    span: Any


class _Trace:
    __slots__ = ("conversation", "last_span_at", "spans", "weight")

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.weight = 0
        self.last_span_at = 0.0
        self.conversation = ""


class Sampling:
    """Keeps a share of all traces, and every trace with an error or bad feedback.

    The decision is a function of the trace id, as with OpenTelemetry's `TraceIdRatioBased`, so all
    processes of a trace agree. Unsampled traces are held for a while.

    Args:
        ratio: Share of traces to keep, in [0, 1].
    """

    def __init__(
        self, ratio: float, *, max_held: int = MAX_HELD, max_weight: int = MAX_WEIGHT
    ) -> None:
        self._bound = round(ratio * _FULL)
        self._max_held = max_held
        self._max_weight = max_weight
        self._held: OrderedDict[int, _Trace] = OrderedDict()
        self._count = self._weight = 0
        self._pinned: OrderedDict[int | str, None] = OrderedDict()
        self.left_out = 0
        """Number of spans dropped."""

    @property
    def held(self) -> int:
        """Number of held spans."""
        return self._count

    def keeps(self, trace_id: int) -> bool:
        """Whether a trace is kept by its id alone, whatever happens in it."""
        return trace_id % _FULL < self._bound

    def pick(self, spans: Iterable[SampledSpan], now: float) -> list[Any]:
        """The spans to send now, both new ones and held ones.

        Args:
            spans: Spans that ended.
            now: Seconds on any monotonic clock.
        """
        picked: list[Any] = []
        for span in spans:
            if self.keeps(span.trace_id) or self._is_pinned(span):
                picked.append(span.span)
            elif span.error:
                picked += self._rescue(span.trace_id)
                picked.append(span.span)
            else:
                self._hold(span, now)
        self._evict(now)
        return picked

    def keep(self, trace_id: int = 0, conversation: str = "") -> list[Any]:
        """Keep a trace, or all of a conversation; return the held spans of it."""
        picked: list[Any] = []
        if trace_id:
            picked += self._rescue(trace_id)
        if conversation:
            self._pin(conversation)
            matching = [id for id, t in self._held.items() if t.conversation == conversation]
            for matching_id in matching:
                picked += self._rescue(matching_id)
        return picked

    def _is_pinned(self, span: SampledSpan) -> bool:
        return span.trace_id in self._pinned or (
            bool(span.conversation) and span.conversation in self._pinned
        )

    def _pin(self, key: int | str) -> None:
        self._pinned[key] = None
        self._pinned.move_to_end(key)
        if len(self._pinned) > MAX_PINNED:
            self._pinned.popitem(last=False)

    def _rescue(self, trace_id: int) -> list[Any]:
        self._pin(trace_id)
        trace = self._held.pop(trace_id, None)
        if trace is None:
            return []
        self._count -= len(trace.spans)
        self._weight -= trace.weight
        return trace.spans

    def _hold(self, span: SampledSpan, now: float) -> None:
        trace = self._held.get(span.trace_id)
        if trace is None:
            trace = self._held[span.trace_id] = _Trace()
        trace.spans.append(span.span)
        trace.weight += span.weight
        trace.last_span_at = now
        trace.conversation = trace.conversation or span.conversation
        self._held.move_to_end(span.trace_id)
        self._count += 1
        self._weight += span.weight

    def _evict(self, now: float) -> None:
        while self._held:
            trace_id, trace = next(iter(self._held.items()))
            full = self._count > self._max_held or self._weight > self._max_weight
            if not full and now - trace.last_span_at < HOLD_S:
                return
            del self._held[trace_id]
            self._count -= len(trace.spans)
            self._weight -= trace.weight
            self.left_out += len(trace.spans)
