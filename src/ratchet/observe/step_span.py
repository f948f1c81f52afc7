"""A lightweight span of a step that implements OpenTelemetry's span interface.

The SDK's span costs more than the rest of recording a step. This one stores what is needed and
leaves the rest to the sender thread. It is imported, with OpenTelemetry, at the first span of a
process.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Mapping
from contextvars import Token
from time import perf_counter_ns, time_ns
from typing import Any

from opentelemetry.context import Context, attach, detach, get_current, set_value
from opentelemetry.trace import (
    INVALID_SPAN,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace import Span as OtelSpan

from ratchet import _live_calls
from ratchet._live_calls import LiveCall
from ratchet.observe.capture import capture, readable, shorten
from ratchet.observe.conversations import CONVERSATION
from ratchet.observe.ids import new_span_id, new_trace_id
from ratchet.observe.span_template import LIVE_CALL, SpanTemplate
from ratchet.observe.step_kinds import KINDS
from ratchet.observe.thread_context import STARTED_IN
from ratchet.types import Span, SpanEvent

MAX_ATTRIBUTES = 500
"""Maximum number of attributes of a step, besides input and output; the rest is only counted."""

MAX_EVENTS = 200

_RELATIVE_NS = 3_600 * 10**9
"""How long a step uses its parent's monotonic clock, so that a tree is consistent when the
system's clock jumps. After that it uses the system's clock, as the monotonic clock stops while a
computer sleeps."""


class StepSpan(OtelSpan):
    """A running step, created by `begin`."""

    __slots__ = (
        "_clock",
        "_context",
        "_dropped",
        "_mirror",
        "_trace_state",
        "attributes",
        "end_ns",
        "events",
        "foreign",
        "live_call",
        "message",
        "name",
        "parent_id",
        "sink",
        "span_id",
        "start_ns",
        "status",
        "template",
        "trace_id",
        "weight",
    )

    name: str
    template: SpanTemplate
    sink: Any
    trace_id: int
    span_id: int
    parent_id: int
    """Zero for a root."""
    start_ns: int
    end_ns: int
    """Zero until it ends."""
    status: str
    message: str
    attributes: dict[str, Any]
    events: list[SpanEvent] | None
    foreign: bool
    """Whether code outside this package set attributes, which are then normalised."""
    live_call: LiveCall | None
    """The live call that begins with this step; None for a step within a live call."""
    weight: int
    """Number of characters, roughly."""
    _mirror: OtelSpan | None
    """The mirrored span of the user's own provider."""
    _clock: int
    _context: SpanContext | None
    _dropped: int
    _trace_state: TraceState | None

    def capture_input(self, value: Any) -> None:
        """Record the step's input, if contents are recorded."""
        if self.sink.content:
            text = capture(value, self.template.limit)
            self.weight += len(text)
            self.attributes[self.template.input_key] = text
            if self._mirror is not None and self.sink.mirror_content:
                self._mirror.set_attribute(self.template.input_key, text)

    def capture_output(self, value: Any) -> None:
        """Record the step's output, if contents are recorded."""
        if self.sink.content and not self.end_ns:
            text = capture(value, self.template.limit)
            self.weight += len(text)
            self.attributes[self.template.output_key] = text
            if self._mirror is not None and self.sink.mirror_content:
                self._mirror.set_attribute(self.template.output_key, text)

    def keep(self, key: str, value: Any) -> None:
        """Set an attribute; anything but text, numbers and booleans is stored as JSON."""
        kind = type(value)
        if kind is str or issubclass(kind, str):
            value = shorten(readable(str.__str__(value)))
            self.weight += len(value)
        elif kind is not int and kind is not float and kind is not bool:
            value = capture(value)
            self.weight += len(value)
        elif kind is int and not -(2**63) <= value < 2**63:
            value = str(value)
        self._put(key, value)

    def failed(self, error: BaseException) -> None:
        """Record the exception that the step raised."""
        if self.end_ns or isinstance(error, GeneratorExit):
            return
        exception_text = "".join(traceback.format_exception_only(error)).strip()
        self.status, self.message = "error", shorten(readable(exception_text))
        self.attributes["error.type"] = type(error).__qualname__
        # An exception whose `str` raises must not replace itself.
        with contextlib.suppress(Exception):
            self.record_exception(error)
        if self._mirror is not None:
            with contextlib.suppress(Exception):
                self._mirror.record_exception(error)
                self._mirror.set_status(Status(StatusCode.ERROR, self.message))

    def frozen(self) -> Span:
        """The finished step as a `Span`, with the attributes of its kind."""
        attributes = self.attributes
        describe = KINDS[self.template.kind]
        if describe is not None:
            attributes = describe(attributes)
        if self._dropped:
            attributes = {**attributes, "otel.dropped_attributes_count": self._dropped}
        return Span(
            trace_id=f"{self.trace_id:032x}",
            span_id=f"{self.span_id:016x}",
            parent_id=f"{self.parent_id:016x}" if self.parent_id else None,
            name=self.name,
            start_ns=self.start_ns,
            end_ns=self.end_ns,
            status=self.status,  # type: ignore[arg-type]
            message=self.message,
            attributes=attributes,
            events=tuple(self.events) if self.events else (),
        )

    # OpenTelemetry's interface, for code that uses the current span.

    def get_span_context(self) -> SpanContext:
        """Ids of the span, for its children."""
        context = self._context
        if context is None:
            context = self._context = SpanContext(
                self.trace_id, self.span_id, False, TraceFlags(1), self._trace_state
            )
        return context

    def is_recording(self) -> bool:
        """Whether the step is still running."""
        return not self.end_ns

    def set_attribute(self, key: str, value: Any) -> None:
        """Set an attribute."""
        if self.end_ns:
            return
        self.foreign = True
        if type(value) in (list, tuple) and all(type(v) in _PLAIN for v in value):
            self._put(key, [shorten(readable(v)) if type(v) is str else v for v in value])
        elif value is not None:
            self.keep(key, value)
        if self._mirror is not None:
            with contextlib.suppress(Exception):
                self._mirror.set_attribute(key, value)

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set several attributes."""
        for key, value in attributes.items():
            self.set_attribute(key, value)

    def add_event(
        self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None
    ) -> None:
        """Add an event."""
        if self.end_ns:
            return
        if self.events is None:
            self.events = []
        if len(self.events) < MAX_EVENTS:
            plain_attributes = {
                shorten(readable(str(key))): value
                if type(value) in (int, float, bool)
                else shorten(readable(value) if type(value) is str else capture(value))
                for key, value in list((attributes or {}).items())[:MAX_ATTRIBUTES]
            }
            self.foreign = True
            self.weight += 100 + sum(len(v) for v in plain_attributes.values() if type(v) is str)
            self.events.append(
                SpanEvent(shorten(readable(name)), timestamp or self._now(), plain_attributes)
            )

    def record_exception(
        self,
        exception: BaseException,
        attributes: Mapping[str, Any] | None = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Add an exception as an event, with its stack."""
        kind = type(exception)
        module = kind.__module__
        type_name = kind.__qualname__
        stack = "".join(
            traceback.format_exception(kind, exception, exception.__traceback__, limit=-50)
        )
        foreign = self.foreign
        self.add_event(
            "exception",
            {
                "exception.type": f"{module}.{type_name}" if module != "builtins" else type_name,
                "exception.message": str(exception),
                "exception.stacktrace": stack,
                "exception.escaped": str(escaped),
                **(attributes or {}),
            },
            timestamp,
        )
        self.foreign = foreign

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Set the status."""
        if self.end_ns:
            return
        code: Any = status
        if isinstance(status, Status):
            code, description = status.status_code, status.description
        self.status = code.name.lower()
        if self.status == "error" and description:
            self.message = shorten(readable(description))

    def update_name(self, name: str) -> None:
        """Rename the span."""
        self.name = shorten(readable(name), 1_000)

    def add_link(self, context: SpanContext, attributes: Mapping[str, Any] | None = None) -> None:
        """Link to another span."""
        links = self.attributes.setdefault("otel.links", [])
        if isinstance(links, list) and len(links) < MAX_EVENTS:
            links.append(f"{context.trace_id:032x}:{context.span_id:016x}")

    def end(self, end_time: int | None = None) -> None:
        """End the span; later changes are ignored."""
        if self.end_ns:
            return
        # Monotonic: never before its start, even if the system's clock jumps.
        self.end_ns = self._now()
        if self.live_call is not None:
            self.live_call.over = True
        if self._mirror is not None:
            with contextlib.suppress(Exception):
                self._mirror.end()
        self.sink.take(self)

    def _now(self) -> int:
        return self.start_ns + perf_counter_ns() - self._clock

    def _put(self, key: str, value: Any) -> None:
        if len(self.attributes) < MAX_ATTRIBUTES or key in self.attributes:
            self.attributes[shorten(readable(str(key)), 500)] = value
        else:
            self._dropped += 1


def attach_span(span: StepSpan) -> Token[Context]:
    """Make the span OpenTelemetry's current one, and its live call the current call.

    Returns:
        What `detach` takes.
    """
    context = set_span_in_context(span)
    if span.live_call is not None:
        context = set_value(LIVE_CALL, span.live_call, context)
    return attach(context)


detach_span = detach
"""Takes what `attach_span` returned, and makes the previous span current again."""

_PLAIN = frozenset({str, int, float, bool})


def begin(template: SpanTemplate, sink: Any) -> StepSpan:
    """Begin a step under the current span of OpenTelemetry's context."""
    context = get_current()
    parent = get_current_span(context)
    span = StepSpan()
    clock = span._clock = perf_counter_ns()
    span._trace_state = None
    if context.get(STARTED_IN) is parent and not parent.is_recording():
        parent = INVALID_SPAN
    if parent.__class__ is StepSpan:
        span.trace_id = parent.trace_id
        span.parent_id = parent.span_id
        past = clock - parent._clock
        span.start_ns = parent.start_ns + past if past < _RELATIVE_NS else time_ns()
    else:
        span.start_ns = time_ns()
        above = parent.get_span_context()
        if above.is_valid:
            span.trace_id, span.parent_id = above.trace_id, above.span_id
            span._trace_state = above.trace_state
        else:
            span.trace_id, span.parent_id = new_trace_id(), 0
    span.span_id = new_span_id()
    span.name = template.name
    span.template = template
    span.sink = sink
    span.attributes = dict(template.attributes)
    span.events = None
    span.status = "unset"
    span.message = ""
    span.end_ns = span._dropped = 0
    span.weight = 1_000
    span.foreign = False
    span._context = span._mirror = None
    talk = context.get(CONVERSATION)
    if talk is not None:
        span.attributes.update(talk)  # type: ignore[call-overload]
    if sink.tracer is not None:
        _begin_mirror(span)
    releases = sink.releases
    span.live_call = None
    if releases is not None and not (parent.__class__ is StepSpan and parent.is_recording()):
        call = context.get(LIVE_CALL)
        if call is None or call.over:  # type: ignore[attr-defined]
            span.live_call = releases.begin(span, parent)
            if span.live_call is not None:
                sink.begin_call(span, span.live_call)
    return span


def _find_live_call() -> LiveCall | None:
    return get_current().get(LIVE_CALL)  # type: ignore[return-value]


_live_calls.find = _find_live_call


def _begin_mirror(span: StepSpan) -> None:
    """Start a span of the user's provider too, so that their back end gets whole trees.

    Their sampler decides about it. Ours takes its ids, so that children nest under both.
    """
    with contextlib.suppress(Exception):  # a broken set-up of the user's must not break the step
        beside = span.sink.tracer.start_span(span.name, attributes=span.attributes)
        context = beside.get_span_context()
        if context.is_valid:
            span._mirror, span._context = beside, context
            span.trace_id, span.span_id = context.trace_id, context.span_id
