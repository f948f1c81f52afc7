"""Spans go to another back end too: with OpenTelemetry's exporter, to a real OTLP receiver."""

from __future__ import annotations

import gzip
import json
import logging
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider

import ratchet
from ratchet.observe import Handle
from tests.observe.conftest import stored

Start = Callable[..., Handle]


@ratchet.tool
def look_up(word: str) -> str:
    return word.upper()


@ratchet.agent
def answer(question: str) -> str:
    return look_up(question)


class Receiver:
    """An OTLP receiver over HTTP that answers as it is told, or not at all."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.hangs: threading.Event | None = None
        self.came = threading.Semaphore(0)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                request = ExportTraceServiceRequest()
                request.ParseFromString(body)
                assert self.path == "/v1/traces"
                receiver.requests.append(request)
                receiver.headers.append({k.lower(): v for k, v in self.headers.items()})
                receiver.came.release()
                if receiver.hangs is not None:
                    receiver.hangs.wait(60)
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *words: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def spans(self) -> dict[str, Any]:
        """What came, by name."""
        return {
            span.name: span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }

    def services(self) -> set[str]:
        return {
            each.value.string_value
            for request in self.requests
            for resource in request.resource_spans
            for each in resource.resource.attributes
            if each.key == "service.name"
        }

    def close(self) -> None:
        if self.hangs is not None:
            self.hangs.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def attributes(span: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in span.attributes}


def test_a_receiver_gets_the_same_spans_redacted_with_the_same_ids(
    start: Start, project: Path, receiver: Receiver
) -> None:
    handle = start("booking", forward=receiver.url)
    answer("write to ann@example.com")
    with pytest.raises(ValueError, match="full"), ratchet.trace("book", seats=2):
        raise ValueError("the room is full")
    assert handle.flush(60)
    handle.shutdown(60)
    came, ours = receiver.spans(), stored(project)
    assert set(came) == set(ours) == {"answer", "look_up", "book"}
    assert receiver.services() == {"booking"}
    for name, span in ours.items():
        assert came[name].trace_id.hex() == span.trace_id
        assert came[name].span_id.hex() == span.span_id
        assert came[name].parent_span_id.hex() == (span.parent_id or "")
        assert (came[name].start_time_unix_nano, came[name].end_time_unix_nano) == (
            span.start_ns,
            span.end_ns,
        )
    assert "[redacted:email]" in json.dumps(attributes(came["answer"]))
    assert "ann@" not in json.dumps([attributes(span) for span in came.values()])
    assert came["book"].status.code == 2
    assert came["book"].status.message == ours["book"].message != ""
    assert came["book"].events[0].name == "exception"
    seats = next(each for each in came["book"].attributes if each.key == "seats")
    assert seats.value.int_value == 2


def test_address_and_headers_may_come_from_opentelemetry_s_variables(
    start: Start, project: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=rooms")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    handle = start()
    answer("why")
    handle.shutdown(60)
    assert set(receiver.spans()) == set(stored(project))
    assert receiver.headers[0]["x-team"] == "rooms"
    assert receiver.headers[0]["content-encoding"] == "gzip"


def test_nothing_is_forwarded_where_the_user_exports_or_wants_none(
    start: Start, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    for options in ({"forward": False}, {}):
        handle = start(**options)
        answer("why")
        handle.shutdown(60)
        trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
    assert not receiver.requests


def medians(handle: Handle) -> tuple[float, float]:
    """Seconds of a call: the median, and the slowest, while spans are sent all the time."""
    took = []
    for number in range(300):
        begun = time.perf_counter()
        answer("why")
        took.append(time.perf_counter() - begun)
        if number % 100 == 99:
            assert handle.flush(60)
    return statistics.median(took), max(took)


@pytest.mark.parametrize("trouble", ["hangs", 500, "away", "raises"])
def test_a_receiver_in_trouble_costs_the_agent_nothing_and_loses_nothing_of_ours(
    start: Start,
    project: Path,
    receiver: Receiver,
    trouble: str | int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO)
    url = receiver.url
    if trouble == "hangs":
        receiver.hangs = threading.Event()
    elif trouble == "raises":
        monkeypatch.setattr(OTLPSpanExporter, "export", lambda *_: 1 / 0)
    elif trouble == "away":
        url = "http://127.0.0.1:9"
    else:
        receiver.status = int(trouble)
    handle = start("without", forward=False)
    usual, _ = medians(handle)
    handle.shutdown(60)
    handle = start("with", forward=url)
    typical, slowest = medians(handle)
    if trouble in ("hangs", 500):
        assert receiver.came.acquire(timeout=60), "it was asked"
    assert handle.status().sent == handle.status().taken == 600
    handle.shutdown(1.0)
    # Far from what it would be if a call waited; a machine may be busy with something else.
    assert typical < 3 * usual + 0.05
    assert slowest < 5.0, "no call waited for the receiver"
    others = [each for each in caplog.records if each.name != "ratchet"]
    assert not [each for each in others if each.name.startswith(("opentelemetry", "urllib3"))]
    told = [each for each in caplog.records if "forward" in each.getMessage()]
    assert len(told) <= 1
    if trouble in (500, "raises"):
        assert "could not be forwarded" in told[0].getMessage()
