"""OpenTelemetry spans of our own provider, turned into ours when they end.

The provider is Ratchet's, not the global one: a user's own OpenTelemetry set-up stays untouched,
while the context is shared, so that spans of either side nest under the other's.
"""

from __future__ import annotations

import functools
import os
import random
import secrets
from typing import TYPE_CHECKING, Any

from ratchet.observe.capture import readable
from ratchet.observe.collector import Collector
from ratchet.types import Span, SpanEvent

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.trace import Tracer

_STATUS = {0: "unset", 1: "ok", 2: "error"}


@functools.cache
def tracer() -> Tracer:
    """The tracer of Ratchet's provider; OpenTelemetry is imported at the first span, not before."""
    return _provider().get_tracer("ratchet")


@functools.cache
def _provider() -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    # OpenTelemetry's own generator draws from the global `random`: an agent that seeds it would get
    # the same ids in every rollout, and its random numbers would change when traced.
    source = random.Random(secrets.randbits(256))  # noqa: S311 - unique, not secret
    os.register_at_fork(after_in_child=lambda: source.seed(secrets.randbits(256)))

    class OwnIds(IdGenerator):
        def generate_span_id(self) -> int:
            return source.getrandbits(64) or 1

        def generate_trace_id(self) -> int:
            return source.getrandbits(128) or 1

    # An empty resource: the detectors of Resource.create start threads and cost milliseconds.
    provider = TracerProvider(
        sampler=ALWAYS_ON,
        resource=Resource({}),
        id_generator=OwnIds(),
        shutdown_on_exit=False,
    )
    # OTEL_SDK_DISABLED is about the user's own telemetry: what a rollout did is still asked for.
    provider._disabled = False
    return provider


def warm_up() -> None:
    """Import OpenTelemetry and make a first span now, so that no rollout's latency pays for it."""
    tracer().start_span("warm up").end()


def deliver(span: ReadableSpan, collector: Collector) -> None:
    """Convert an ended span and hand it to its rollout's collector."""
    collector.add(convert(span))


def convert(span: ReadableSpan) -> Span:
    """An OpenTelemetry span as ours."""
    own = span.get_span_context()
    assert own is not None
    return Span(
        trace_id=f"{own.trace_id:032x}",
        span_id=f"{own.span_id:016x}",
        parent_id=f"{span.parent.span_id:016x}" if span.parent else None,
        name=span.name,
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        status=_STATUS[span.status.status_code.value],  # type: ignore[arg-type]
        message=readable(span.status.description or ""),
        attributes=_attributes(span.attributes),
        events=tuple(
            SpanEvent(event.name, event.timestamp, _attributes(event.attributes))
            for event in span.events
        ),
    )


def _attributes(attributes: Any) -> dict[str, Any]:
    return {
        key: list(value)
        if isinstance(value, tuple)
        else readable(value)
        if isinstance(value, str)
        else value
        for key, value in (attributes or {}).items()
    }
