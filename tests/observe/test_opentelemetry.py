"""A user's own OpenTelemetry set-up keeps working beside Ratchet's, and nests with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ratchet
from ratchet.observe import Collector

Rollout = Callable[[], AbstractContextManager[Collector]]


def test_spans_of_both_sides_nest_and_go_to_their_own_side(rollout: Rollout) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    theirs = provider.get_tracer("user")

    @ratchet.tool
    def tool() -> None: ...

    with rollout() as collector, ratchet.trace("ours"), theirs.start_as_current_span("theirs"):
        tool()
    with theirs.start_as_current_span("alone"):
        tool()
    inner, outer = collector.spans
    (user, alone) = exporter.get_finished_spans()
    assert [s.name for s in (inner, outer)] == ["tool", "ours"]
    assert [s.name for s in (user, alone)] == ["theirs", "alone"]
    assert user.context is not None
    assert user.parent is not None
    assert inner.parent_id == f"{user.context.span_id:016x}"
    assert f"{user.parent.span_id:016x}" == outer.span_id
    assert f"{user.context.trace_id:032x}" == outer.trace_id == inner.trace_id
    assert alone.parent is None
    provider.shutdown()


RECORD = """
import ratchet
from opentelemetry import trace
from ratchet.observe import Collector, collecting
before = trace.get_tracer_provider()
collecting.set(collector := Collector())
with ratchet.trace("step") as step:
    step.output = 1
print([s.name for s in collector.spans], trace.get_tracer_provider() is before)
"""


@pytest.mark.parametrize(
    "environment",
    [{}, {"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_SAMPLER": "always_off"}],
    ids=["plain", "disabled", "sampled out"],
)
def test_what_a_user_sets_for_their_telemetry_does_not_stop_ours(
    environment: dict[str, str],
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", RECORD], env=environment, capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.strip() == "['step'] True", ran.stderr


def test_text_that_no_encoding_can_hold_is_made_readable(rollout: Rollout) -> None:
    @ratchet.tool
    def fail() -> None:
        raise OSError("name \udcff")

    with rollout() as collector:
        with ratchet.trace("step") as step:
            step.set("file", "\udcff")
            step.set("long", "x" * 100_000)
        with pytest.raises(OSError, match="name"):
            fail()
    span, failed = collector.spans
    assert span.attributes["file"] == "\ufffd"
    assert len(span.attributes["long"]) < 20_000
    assert failed.message == "OSError: name \ufffd"
    failed.events[0].attributes["exception.message"].encode()
