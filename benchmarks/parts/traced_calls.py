"""Measures one tracer in a process of its own: `traced_calls.py WAY ADDRESS`.

It runs in the tracer's environment. Each input line is a number of calls to make; each output line
is their wall time in seconds and the CPU time of the process, including its threads until
everything was exported.

All tracers get the same function and arguments, and produce the same: a span with name, times,
input and output. Calls come in bursts that fit into every queue, and background threads finish
before the next burst begins.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

ARGUMENTS = {
    "question": "Is a room for ten people free on Friday at nine? " * 9,
    "history": [
        {"role": "user", "content": "Hello, I am looking for a place to meet. " * 6},
        {"role": "assistant", "content": "Of course. For how many people? " * 3},
    ],
    "limit": 3,
}
RESULT = {
    "answer": "Room A2 is free on Friday. " * 8,
    "sources": ["rooms.md", "calendar"],
    "score": 0.5,
}

Call = Callable[..., Any]
Ways = Callable[[str], tuple[Call, Callable[[], Any]]]
"""From an address to the traced function, and to what waits until everything is exported."""


def answer(question: str, history: list[dict[str, str]], limit: int) -> dict[str, Any]:
    """The traced function."""
    return RESULT


taken = 0
"""Spans that went nowhere."""


def _exporter() -> Any:
    """An OpenTelemetry exporter that only counts spans."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            global taken
            taken += len(spans)
            return SpanExportResult.SUCCESS

    return Nowhere()


def bare(address: str) -> tuple[Call, Callable[[], Any]]:
    """The function without tracing."""
    return answer, lambda: None


def plain(address: str) -> tuple[Call, Callable[[], Any]]:
    """OpenTelemetry's SDK by hand: a span with JSON input and output. Batches are discarded."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(_exporter()))
    tracer = provider.get_tracer("benchmark")

    def traced(**arguments: Any) -> Any:
        with tracer.start_as_current_span("answer") as span:
            span.set_attribute("input", json.dumps(arguments))
            result = answer(**arguments)
            span.set_attribute("output", json.dumps(result))
            return result

    return traced, provider.force_flush


def off(address: str) -> tuple[Call, Callable[[], Any]]:
    """Ratchet's decorator without `ratchet.init`."""
    import ratchet

    return ratchet.trace(answer), lambda: None


def ours(address: str) -> tuple[Call, Callable[[], Any]]:
    """Ratchet's decorator with `ratchet.init`, with redaction, sending to a server."""
    import ratchet

    handle = ratchet.init("benchmark", url=address)

    def flush() -> None:
        if not handle.flush(30):
            raise SystemExit(f"spans were not stored: {handle.status()}")

    return ratchet.trace(answer), flush


def openinference(address: str) -> tuple[Call, Callable[[], Any]]:
    """OpenInference's decorator. Batches are discarded."""
    from openinference.instrumentation import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(_exporter()))
    return provider.get_tracer("benchmark").chain(answer), provider.force_flush


def langfuse(address: str) -> tuple[Call, Callable[[], Any]]:
    """Langfuse's decorator with a replaced exporter that discards batches."""
    from langfuse import Langfuse, observe

    client = Langfuse(public_key="pk", secret_key="sk", base_url=address, span_exporter=_exporter())
    return observe()(answer), client.flush


def opik(address: str) -> tuple[Call, Callable[[], Any]]:
    """Opik's decorator. Its messages go to a server that says yes to everything: it has no way to
    send them nowhere."""
    os.environ |= {
        "OPIK_URL_OVERRIDE": f"{address}/api",
        "OPIK_WORKSPACE": "default",
        "OPIK_SENTRY_ENABLE": "false",
        "OPIK_ANALYTICS_ENABLED": "false",
        "OPIK_CONSOLE_LOGGING_LEVEL": "CRITICAL",
    }
    from opik import flush_tracker, track

    return track(answer), flush_tracker


def mlflow(address: str) -> tuple[Call, Callable[[], Any]]:
    """MLflow's decorator, as it is when it exports over OTLP, which is the lightest that it offers:
    in batches; with an exporter of ours in the place of OTLP's, so that they go nowhere."""
    os.environ |= {
        "MLFLOW_TRACKING_URI": address,
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{address}/v1/traces",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
    }
    import mlflow as package
    from mlflow.tracing import provider

    provider.get_otlp_exporter = _exporter
    return package.trace(answer), lambda: provider.provider.get().force_flush()


WAYS: dict[str, Ways] = {
    way.__name__: way for way in (bare, plain, off, ours, openinference, langfuse, opik, mlflow)
}

COUNTED = ("plain", "openinference", "langfuse", "mlflow")
"""Those whose spans go to an exporter of ours."""


def main() -> None:
    name, address = sys.argv[1:3]
    # Output of libraries is redirected: lines on standard output are measurements.
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    call, flush = WAYS[name](address)
    if call(**ARGUMENTS) != RESULT:
        raise SystemExit(f"{name} changed what the function returns")
    flush()
    if name in COUNTED and taken != 1:
        raise SystemExit(f"of one call of {name} {taken} spans were exported")
    print("ready", file=lines, flush=True)
    for line in sys.stdin:
        count = int(line)
        cpu_s = time.process_time()
        begun = time.perf_counter()
        for _ in range(count):
            call(**ARGUMENTS)
        wall_s = time.perf_counter() - begun
        flush()
        print(json.dumps([wall_s, time.process_time() - cpu_s]), file=lines, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
