"""A user's own OpenTelemetry set-up keeps working beside Ratchet's, and nests with it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider

import ratchet
from tests.observe.conftest import Exported, Rollout


def test_spans_of_both_sides_nest_and_go_to_their_own_side(
    rollout: Rollout, exported: tuple[TracerProvider, Exported]
) -> None:
    theirs = exported[0].get_tracer("user")

    @ratchet.tool
    def tool() -> None: ...

    with rollout() as collector, ratchet.trace("ours"), theirs.start_as_current_span("theirs"):
        tool()
    with theirs.start_as_current_span("alone"):
        tool()
    inner, outer = collector.spans
    user, alone = exported[1]()
    assert [s.name for s in (inner, outer)] == ["tool", "ours"]
    assert [s.name for s in (user, alone)] == ["theirs", "alone"]
    assert user.context is not None
    assert user.parent is not None
    assert inner.parent_id == f"{user.context.span_id:016x}"
    assert f"{user.parent.span_id:016x}" == outer.span_id
    assert f"{user.context.trace_id:032x}" == outer.trace_id == inner.trace_id
    assert alone.parent is None


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
