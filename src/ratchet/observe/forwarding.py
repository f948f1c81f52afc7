"""Forwards spans over OTLP to another back end, redacted and normalised as they are stored."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ratchet.observe.background import suppress_tracing
from ratchet.types import ConfigError, SpanRecord

_log = logging.getLogger("ratchet")

WAITING = 40
"""Maximum number of batches in the queue; further ones are dropped."""


class OtlpForwarder:
    """A thread that exports records with OpenTelemetry's OTLP exporter.

    Args:
        endpoint: Address of the back end, such as http://collector:4318; if empty, OpenTelemetry's
            variables name it.
        agent: The service name there, unless OTEL_SERVICE_NAME is set.

    Raises:
        ConfigError: The exporter is not installed.
    """

    def __init__(self, endpoint: str, agent: str) -> None:
        try:
            exporters = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        except ImportError:
            raise ConfigError(
                "Spans cannot be forwarded: opentelemetry-exporter-otlp-proto-http is not"
                " installed.",
                hint="Install it, or leave `forward` out.",
            ) from None
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource

        address = endpoint.rstrip("/")
        if address and not address.endswith("/v1/traces"):
            address += "/v1/traces"
        self._exporter = exporters.OTLPSpanExporter(endpoint=address or None)
        self._resource = Resource({SERVICE_NAME: agent}).merge(OTELResourceDetector().detect())
        self._waiting: queue.Queue[list[SpanRecord] | None] = queue.Queue(WAITING)
        self.dropped = self.failed = 0
        self._thread = threading.Thread(target=self._run, name="ratchet-forward", daemon=True)
        self._thread.start()

    def put(self, records: list[SpanRecord]) -> None:
        """Queue records for export; drop them when the queue is full."""
        try:
            self._waiting.put_nowait(records)
        except queue.Full:
            if not self.dropped:
                _log.warning("The back end that spans are forwarded to does not keep up.")
            self.dropped += len(records)

    def close(self, timeout_s: float) -> None:
        """Export the queue, within a time limit."""
        deadline = time.monotonic() + timeout_s
        try:
            self._waiting.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        suppress_tracing()
        while (records := self._waiting.get()) is not None:
            try:
                result = self._exporter.export(exportable(records, self._resource))
                # The exporter does not raise when the back end is unavailable or rejects them.
                why = "" if getattr(result, "name", "SUCCESS") == "SUCCESS" else "not taken"
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
            if why:
                # One warning a process, to keep the agent's log readable.
                level = logging.DEBUG if self.failed else logging.WARNING
                self.failed += len(records)
                _log.log(level, "Spans could not be forwarded: %s", why)
        self._exporter.shutdown()


def exportable(records: Sequence[SpanRecord], resource: Any) -> list[Any]:
    """Convert records to finished spans of OpenTelemetry's SDK."""
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    kinds = {
        "server": SpanKind.SERVER,
        "client": SpanKind.CLIENT,
        "producer": SpanKind.PRODUCER,
        "consumer": SpanKind.CONSUMER,
    }
    converted = []
    for record in records:
        span = record.span
        trace_id, sampled = int(span.trace_id, 16), TraceFlags(TraceFlags.SAMPLED)
        above = span.parent_id
        attributes = {key: _plain(value) for key, value in span.attributes.items()}
        code = {"ok": StatusCode.OK, "error": StatusCode.ERROR}.get(span.status, StatusCode.UNSET)
        converted.append(
            ReadableSpan(
                name=span.name,
                context=SpanContext(trace_id, int(span.span_id, 16), False, sampled),
                parent=SpanContext(trace_id, int(above, 16), False, sampled) if above else None,
                resource=resource,
                attributes=attributes,
                events=[
                    Event(
                        event.name,
                        {k: _plain(v) for k, v in event.attributes.items()},
                        event.time_ns,
                    )
                    for event in span.events
                ],
                kind=kinds.get(str(attributes.get("span.kind")), SpanKind.INTERNAL),
                status=Status(code, span.message if code is StatusCode.ERROR else None),
                start_time=span.start_ns,
                end_time=span.end_ns,
                instrumentation_scope=InstrumentationScope(
                    str(attributes.get("otel.scope.name", "ratchet"))
                ),
            )
        )
    return converted


def _plain(value: Any) -> Any:
    if isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, list) and len({type(member) for member in value}) <= 1:
        return [_plain(member) for member in value]
    from ratchet.observe.capture import capture

    return capture(value)
