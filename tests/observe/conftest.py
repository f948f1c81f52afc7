"""Fixtures of the room: a rollout's collector around what a test does, and live capture."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ratchet
from ratchet.observe import Collector, Handle, collecting
from ratchet.store import Store
from ratchet.store.local_agents import open_with_agents
from ratchet.types import Activation, Span, SpanRecord

Rollout = Callable[[], AbstractContextManager[Collector]]
Start = Callable[..., Handle]
Exported = Callable[[], list[ReadableSpan]]


@pytest.fixture
def rollout() -> Rollout:
    """Opens a rollout: what is done inside is recorded in its collector."""

    @contextmanager
    def opened() -> Iterator[Collector]:
        collector = Collector()
        token = collecting.set(collector)
        try:
            yield collector
        finally:
            collecting.reset(token)
            collector.over = True

    return opened


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, as the working directory, and nothing of Ratchet's in the environment."""
    for name in ("RATCHET_URL", "RATCHET_KEY", "RATCHET_STORE", "RATCHET_AGENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def start(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts live capture: takes what `init` does. It is ended with the test.

    OpenTelemetry is as in a process that has not set it up.
    """
    # Imported as the fixture begins: what a test sets is taken back afterwards.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", trace.Once())
    handles: list[Handle] = []

    def started(*args: Any, instrument: bool = False, **kwargs: Any) -> Handle:
        handle = ratchet.init(*args, instrument=instrument, **kwargs)
        handles.append(handle)
        return handle

    yield started
    for handle in handles:
        handle.shutdown(60)


@pytest.fixture
def exported() -> Iterator[tuple[TracerProvider, Exported]]:
    """A provider, and the spans of it that have ended."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider, lambda: list(exporter.get_finished_spans())
    provider.shutdown()


def record(name: str) -> SpanRecord:
    """A span of that name, as it is sent."""
    span = Span(trace_id="0" * 31 + "1", span_id="0" * 15 + "1", name=name, start_ns=1, end_ns=2)
    return SpanRecord(span=span, agent="a")


def release(store: Store, id: str) -> None:
    """Make a candidate the release of the agent `bot`."""
    store.agents.activate(Activation(agent="bot", candidate_id=id, activated_at=time.time()))


def stored(folder: Path) -> dict[str, Span]:
    """The live spans in a project's store, by name; of several with one name the newest."""
    if not (folder / ".ratchet").exists():
        return {}
    with open_with_agents(f"sqlite:///{folder / '.ratchet' / 'ratchet.db'}") as store:
        return {
            span.name: span
            for agent in store.spans.agents()
            for span in reversed(store.spans.live(agent, 1000)[0])
        }


def count(database: Path) -> int:
    """How many spans a database holds, with those that agents have recorded for it."""
    open_with_agents(f"sqlite:///{database}").close()
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as opened:
        return int(opened.execute("SELECT count(*) FROM spans").fetchone()[0])
