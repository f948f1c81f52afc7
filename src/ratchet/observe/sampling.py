"""Sampling: which traces are kept when not all are, decided when it is known how they went."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

HOLD_S = 60.0
"""How long a trace that was not drawn is held after its last span: an error or feedback that comes
meanwhile keeps it."""

MAX_HELD = 10_000
"""Spans that are held; beyond it the trace that was quiet for longest is let go."""

MAX_WEIGHT = 32 * 1024 * 1024
"""Characters that are held, about."""

MAX_PINNED = 20_000
"""Traces and conversations that are known to be kept."""

_FULL = 1 << 64


class SampledSpan(NamedTuple):
    """What sampling needs to know of a span."""

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
    """Keeps a share of all traces, and every trace with an error or with bad feedback.

    Whether a trace is drawn follows from its id, so that all processes of a trace decide alike, and
    as OpenTelemetry's `TraceIdRatioBased` does. Traces that are not drawn are held for a while.

    Args:
        ratio: The share, in [0, 1].
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
        """Spans that were let go."""

    @property
    def held(self) -> int:
        """Spans that are held."""
        return self._count

    def pick(self, spans: Iterable[SampledSpan], now: float) -> list[Any]:
        """The spans that are to be sent now: of those given, and of those held before.

        Args:
            spans: Spans that ended.
            now: Seconds, from any beginning, never going back.
        """
        picked: list[Any] = []
        for span in spans:
            if span.trace_id % _FULL < self._bound or self._is_pinned(span):
                picked.append(span.span)
            elif span.error:
                picked += self._rescue(span.trace_id)
                picked.append(span.span)
            else:
                self._hold(span, now)
        self._evict(now)
        return picked

    def keep(self, trace_id: int = 0, conversation: str = "") -> list[Any]:
        """Keep a trace, or all of a conversation; returns what was held of it."""
        picked: list[Any] = []
        if trace_id:
            picked += self._rescue(trace_id)
        if conversation:
            self._pin(conversation)
            wanted = [id for id, t in self._held.items() if t.conversation == conversation]
            for each in wanted:
                picked += self._rescue(each)
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
