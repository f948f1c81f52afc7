"""Bridge to the process's OpenTelemetry: the user's set-up keeps working, and Ratchet receives
its spans.

A process without a TracerProvider gets Ratchet's, so that the spans of frameworks are recorded.
If the user sets one later, it replaces Ratchet's, and the bridge connects to it.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from ratchet.observe.collector import Collector, current_sink
from ratchet.observe.conversations import CONVERSATION
from ratchet.observe.ids import new_span_id, new_trace_id
from ratchet.observe.otel_spans import MAX_ATTRIBUTES, from_otel

_log = logging.getLogger("ratchet")

SCOPE = "ratchet"
"""Name of the tracer that mirrors Ratchet's spans; spans of this scope are not recorded again."""

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Variable of OpenTelemetry's GenAI instrumentations: whether spans of the user's own provider
get inputs and outputs. Off by default, since Ratchet does not redact them there."""

FLUSH_TIMEOUT_S = 5.0
"""How long a flush of the user's provider waits for Ratchet's pipeline, in seconds."""

MAX_OPEN = 10_000
"""Maximum number of open spans whose rollout is remembered."""


class BridgeProcessor(SpanProcessor):
    """Passes a provider's spans to the rollout in which they began, or to the live pipeline."""

    def __init__(self, live: Any) -> None:
        self.live = live
        self._of_rollouts: OrderedDict[int, Collector] = OrderedDict()

    def on_start(self, span: SdkSpan, parent_context: Context | None = None) -> None:
        """Tag a span with its conversation, and remember its rollout."""
        context = get_current() if parent_context is None else parent_context
        talk = context.get(CONVERSATION) or get_current().get(CONVERSATION)
        if talk is not None:
            span.set_attributes(talk)  # type: ignore[arg-type]
        sink = current_sink()
        if isinstance(sink, Collector):
            own = span.get_span_context()
            self._of_rollouts[own.span_id] = sink
            if len(self._of_rollouts) > MAX_OPEN:
                with contextlib.suppress(KeyError):
                    self._of_rollouts.popitem(last=False)

    def on_end(self, span: ReadableSpan) -> None:
        """Take a finished span."""
        scope = span.instrumentation_scope
        if scope is not None and scope.name == SCOPE:
            return
        own = span.get_span_context()
        if own is None or not own.trace_flags.sampled:
            return
        collector = self._of_rollouts.pop(own.span_id, None)
        if collector is not None:
            collector.add(from_otel(span))
        elif self.live is not None:
            self.live.take_foreign(span)

    def shutdown(self) -> None:
        """Do nothing: the pipeline may outlive the provider."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the pipeline, within a time limit.

        Always True: after a failure a provider does not flush its other processors.
        """
        if self.live is not None:
            self.live.flush(min(timeout_millis / 2_000, FLUSH_TIMEOUT_S))
        return True


class _OwnIds(IdGenerator):
    def generate_span_id(self) -> int:
        return new_span_id()

    def generate_trace_id(self) -> int:
        return new_trace_id()


class StandInProvider(TracerProvider):
    """The provider of a process that has none; its tracers follow one that the user sets later."""

    def __init__(self) -> None:
        # An empty resource: the detectors of Resource.create start threads and cost milliseconds.
        super().__init__(
            sampler=ALWAYS_ON,
            resource=Resource({}),
            id_generator=_OwnIds(),
            # Instrumentations write several attributes for each message of a conversation; the
            # default limit is 128.
            span_limits=SpanLimits(max_span_attributes=MAX_ATTRIBUTES, max_events=MAX_ATTRIBUTES),
            shutdown_on_exit=False,
        )
        # OTEL_SDK_DISABLED applies to the user's own telemetry only.
        self._disabled = False
        self.successor: Any = None

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        """A tracer of this provider, or of its successor once there is one."""
        if self.successor is not None:
            tracer: trace.Tracer = self.successor.get_tracer(*args, **kwargs)
            return tracer
        return _Following(self, super().get_tracer(*args, **kwargs), args, kwargs)


class _Following(trace.Tracer):
    def __init__(
        self,
        provider: StandInProvider,
        own: trace.Tracer,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._provider = provider
        self._tracer = own
        self._arguments = (args, kwargs)
        self._successor: Any = None

    def _current(self) -> trace.Tracer:
        successor = self._provider.successor
        if successor is not self._successor:
            args, kwargs = self._arguments
            self._tracer = successor.get_tracer(*args, **kwargs)
            self._successor = successor
        return self._tracer

    def start_span(self, *args: Any, **kwargs: Any) -> trace.Span:
        return self._current().start_span(*args, **kwargs)

    @contextlib.contextmanager
    def start_as_current_span(self, *args: Any, **kwargs: Any) -> Iterator[trace.Span]:  # type: ignore[override]
        with self._current().start_as_current_span(*args, **kwargs) as span:
            yield span

    def __getattr__(self, name: str) -> Any:
        # The SDK's tracers have more than the interface says, such as `id_generator`.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._current(), name)


class OtelBridge:
    """Connects a live pipeline to the process's OpenTelemetry.

    Args:
        live: The pipeline.
    """

    def __init__(self, live: Any) -> None:
        self._live = live
        self._stand_in: StandInProvider | None = None
        self._processors: list[tuple[Any, BridgeProcessor]] = []
        self.provider: Any = None
        """The provider for instrumented libraries."""

    def connect(self) -> None:
        """Connect to the user's provider, or install Ratchet's if there is none."""
        provider = getattr(trace, "_TRACER_PROVIDER", None)
        if provider is None and os.environ.get("OTEL_PYTHON_TRACER_PROVIDER"):
            provider = trace.get_tracer_provider()  # loads the one that the variable names
        if provider is not None and self._connect_to(provider):
            self.provider = provider
            return
        self.provider = self._stand_in = StandInProvider()
        processor = BridgeProcessor(self._live)
        self._stand_in.add_span_processor(processor)
        self._processors.append((self._stand_in, processor))
        if provider is None:
            self._install(self._stand_in)
        # Otherwise the user's provider accepts no processors: it stays the global one, and only
        # the libraries that we instrument use ours.

    def go_live(self, live: Any) -> None:
        """Pass spans outside rollouts to a pipeline from now on."""
        self._live = live
        for provider, processor in self._processors:
            processor.live = live
            if provider is not self._stand_in:
                self._mirror_steps(provider)

    def disconnect(self) -> None:
        """Stop receiving spans; a processor can be switched off, but not removed."""
        for _, processor in self._processors:
            processor.live = None
        self._live.tracer = None
        if self._stand_in is not None:
            if getattr(trace, "_TRACER_PROVIDER", None) is self._stand_in:
                trace._TRACER_PROVIDER = None
            once = getattr(trace, "_TRACER_PROVIDER_SET_ONCE", None)
            if isinstance(once, _Watched):
                trace._TRACER_PROVIDER_SET_ONCE = once.original

    def _connect_to(self, provider: Any) -> bool:
        """Add Ratchet's processor to a provider; return False if it accepts none."""
        if any(connected is provider for connected, _ in self._processors):
            return True
        if not callable(getattr(provider, "add_span_processor", None)):
            return False
        processor = BridgeProcessor(self._live)
        provider.add_span_processor(processor)
        self._processors.append((provider, processor))
        self._mirror_steps(provider)
        return True

    def _mirror_steps(self, provider: Any) -> None:
        """Mirror Ratchet's steps as spans of the user's provider."""
        self._live.mirror_content = _is_true(os.environ.get(CONTENT_VARIABLE, ""))
        self._live.tracer = provider.get_tracer(SCOPE)

    def _install(self, stand_in: StandInProvider) -> None:
        """Make a provider the global one in such a way that the user can still set another.

        OpenTelemetry accepts one call of `set_tracer_provider`. If ours used it up, a later call of
        the user's would be refused, and their back end would receive nothing.
        """
        once = getattr(trace, "_TRACER_PROVIDER_SET_ONCE", None)
        if once is None or not hasattr(once, "do_once") or not hasattr(trace, "_TRACER_PROVIDER"):
            _log.info(
                "This version of OpenTelemetry does not let a provider be replaced: Ratchet's "
                "stays set."
            )
            trace.set_tracer_provider(stand_in)
            return
        trace._TRACER_PROVIDER = stand_in
        watched: Any = _Watched(once, self._set_later)
        trace._TRACER_PROVIDER_SET_ONCE = watched

    def _set_later(self) -> None:
        provider = getattr(trace, "_TRACER_PROVIDER", None)
        stand_in = self._stand_in
        if provider is None or provider is stand_in or stand_in is None:
            return
        try:
            if self._connect_to(provider):
                stand_in.successor = provider
        except Exception as error:
            _log.warning("The TracerProvider that was set could not be connected: %s", error)


class _Watched:
    """Wraps OpenTelemetry's guard of `set_tracer_provider`; calls back after a successful set."""

    def __init__(self, original: Any, on_set: Any) -> None:
        self.original = original
        self._on_set = on_set

    def do_once(self, func: Any) -> bool:
        ran = bool(self.original.do_once(func))
        if ran:
            self._on_set()
        return ran

    def __getattr__(self, name: str) -> Any:
        # Test suites reset the guard through its private attributes.
        return getattr(self.original, name)


def _is_true(text: str) -> bool:
    # "span_only" and the like are newer values of the same variable.
    return text.strip().lower() in ("true", "1", "span_only", "span_and_event")
