"""A user's OpenTelemetry and ours in one process: theirs goes on as it was, and we hear of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased

import ratchet
from ratchet.observe import Collector, Handle
from tests.observe.conftest import stored

Start = Callable[..., Handle]
Rollout = Callable[[], AbstractContextManager[Collector]]


class Theirs:
    """A user's provider, and what their back end gets."""

    def __init__(self, **options: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(**options)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self._exporter.get_finished_spans()}


@ratchet.agent
def answer(question: str) -> str:
    with trace.get_tracer("framework").start_as_current_span("call a model") as span:
        span.set_attribute("gen_ai.request.model", "small")
        return question.upper()


def parent_of(span: ReadableSpan) -> str | None:
    return f"{span.parent.span_id:016x}" if span.parent else None


def span_id(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def test_spans_of_a_framework_arrive_in_a_process_that_set_nothing_up(
    start: Start, project: Path
) -> None:
    handle = start()
    answer("why")
    handle.flush(60)
    spans = stored(project)
    assert spans["call a model"].parent_id == spans["answer"].span_id
    assert spans["call a model"].trace_id == spans["answer"].trace_id
    assert spans["call a model"].attributes["gen_ai.request.model"] == "small"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_provider_of_the_users_is_joined_whenever_it_is_set(
    start: Start, project: Path, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = Theirs()
    early = trace.get_tracer("early")
    if when == "before":
        trace.set_tracer_provider(theirs.provider)
    handle = start()
    between = trace.get_tracer("between")
    if when == "after":
        trace.set_tracer_provider(theirs.provider)
    assert trace.get_tracer_provider() is theirs.provider
    warned = [record for record in caplog.records if record.name.startswith("opentelemetry")]
    assert not warned, "no warning that a provider is overridden"
    answer("why")
    for tracer, name in ((early, "early"), (between, "between"), (trace.get_tracer("x"), "late")):
        with tracer.start_as_current_span(name):
            pass
    handle.flush(60)
    ours, seen = stored(project), theirs.spans
    assert set(ours) == set(seen) == {"answer", "call a model", "early", "between", "late"}
    for name in seen:
        assert span_id(seen[name]) == ours[name].span_id
        assert parent_of(seen[name]) == ours[name].parent_id
    # What an agent was told goes to their back end only where they ask for it.
    assert "ratchet.input" not in (seen["answer"].attributes or {})
    assert json.loads(ours["answer"].attributes["ratchet.input"]) == {"question": "why"}


def test_contents_go_onto_the_users_spans_when_they_say_so(
    start: Start, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    theirs = Theirs()
    trace.set_tracer_provider(theirs.provider)
    start()
    answer("why")
    attributes = theirs.spans["answer"].attributes
    assert attributes is not None
    assert attributes["ratchet.output"] == '"WHY"'


@pytest.mark.parametrize(
    ("sampler", "share"), [(ALWAYS_OFF, 0.0), (ParentBased(TraceIdRatioBased(0.3)), 0.3)]
)
def test_the_users_sampler_decides_for_their_back_end_and_not_for_ours(
    start: Start, project: Path, sampler: Any, share: float
) -> None:
    theirs = Theirs(sampler=sampler)
    trace.set_tracer_provider(theirs.provider)
    handle = start()
    for number in range(200):
        with ratchet.trace(f"step {number}"), trace.get_tracer("x").start_as_current_span("below"):
            pass
    handle.flush(60)
    steps = [name for name in theirs.spans if name.startswith("step")]
    assert 200 * share * 0.5 <= len(steps) <= 200 * share * 1.5
    assert len([name for name in stored(project) if name.startswith("step")]) == 200


def test_errors_are_seen_on_both_sides(start: Start, project: Path) -> None:
    theirs = Theirs()
    trace.set_tracer_provider(theirs.provider)
    handle = start()

    @ratchet.trace("step")
    def fail() -> None:
        trace.get_current_span().set_attribute("by", "hand")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    handle.flush(60)
    seen = theirs.spans["step"]
    assert not seen.status.is_ok
    assert (seen.attributes or {})["by"] == "hand"
    ours = stored(project)["step"]
    assert (ours.status, ours.attributes["by"]) == ("error", "hand")


def test_inside_a_rollout_a_frameworks_spans_belong_to_it(
    start: Start, project: Path, rollout: Rollout
) -> None:
    handle = start()
    with rollout() as collector:
        answer("why")
    answer("again")
    handle.flush(60)
    assert [span.name for span in collector.spans] == ["call a model", "answer"]
    assert handle.status().taken == 2


def test_a_conversation_is_named_on_spans_of_either_side(start: Start, project: Path) -> None:
    theirs = Theirs()
    trace.set_tracer_provider(theirs.provider)
    handle = start()
    with ratchet.conversation("c7", user="u1"):
        answer("why")
    with ratchet.trace("outside"):
        pass
    handle.flush(60)
    spans = stored(project)
    for name in ("answer", "call a model"):
        assert spans[name].attributes["gen_ai.conversation.id"] == "c7"
        assert spans[name].attributes["user.id"] == "u1"
        assert (theirs.spans[name].attributes or {})["gen_ai.conversation.id"] == "c7"
    assert "gen_ai.conversation.id" not in spans["outside"].attributes


def test_libraries_that_look_for_the_sdk_find_it(start: Start, project: Path) -> None:
    handle = start()
    provider: Any = trace.get_tracer_provider()
    assert isinstance(provider, TracerProvider)
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    answer("why")
    assert [span.name for span in exporter.get_finished_spans()] == ["call a model"]
    assert provider.force_flush(10_000)
    assert handle.status().sent == 2
    provider.shutdown()
    answer("still")
    assert handle.flush(60)
    assert "answer" in stored(project)


class TakesNone(trace.TracerProvider):
    """A provider of another make, which knows no processors."""

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        return trace.NoOpTracer()


def test_a_provider_that_takes_no_processors_stays(start: Start, project: Path) -> None:
    provider = TakesNone()
    trace.set_tracer_provider(provider)
    handle = start()
    assert trace.get_tracer_provider() is provider
    answer("why")
    handle.flush(60)
    assert set(stored(project)) == {"answer"}


class Raising(TracerProvider):
    """A provider whose tracers are broken."""

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        class Broken(trace.NoOpTracer):
            def start_span(self, *args: Any, **kwargs: Any) -> trace.Span:
                raise RuntimeError("broken")

        return Broken()


def test_a_broken_set_up_of_the_users_does_not_break_their_agent(
    start: Start, project: Path
) -> None:
    trace.set_tracer_provider(Raising(shutdown_on_exit=False))
    handle = start()
    with ratchet.trace("step"):
        pass
    handle.flush(60)
    assert set(stored(project)) == {"step"}


def test_a_span_whose_clock_was_set_back_is_kept_and_marked(start: Start, project: Path) -> None:
    handle = start()
    begun = 1_700_000_000_000_000_000
    span = trace.get_tracer("x").start_span("odd", start_time=begun)
    span.end(begun - 5_000)
    handle.flush(60)
    odd = stored(project)["odd"]
    assert odd.start_ns == odd.end_ns == begun
    assert "set back" in odd.attributes["ratchet.clock"]


def test_our_own_requests_are_not_recorded(
    start: Start, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from ratchet._http import httpx2

    handle = start(url=server.url)
    send = httpx2.Client.send

    def traced(self: Any, *args: Any, **kwargs: Any) -> Any:
        # As OpenTelemetry's instrumentations of HTTP clients do.
        from opentelemetry import context

        if context.get_value(context._SUPPRESS_INSTRUMENTATION_KEY):
            return send(self, *args, **kwargs)
        with trace.get_tracer("http").start_as_current_span("POST"):
            return send(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx2.Client, "send", traced)
        answer("why")
        assert handle.flush(60)
        assert handle.flush(60)
    assert handle.status().taken == 2
