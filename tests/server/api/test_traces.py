"""Traces over HTTP and through the client: listed, filtered, followed, looked at."""

from __future__ import annotations

from typing import Any

from ratchet._http import httpx2
from ratchet.client import Client
from ratchet.types import Span, SpanRecord
from ratchet.types.trace import TraceFilter
from tests.serving import RunningServer

SECOND = 1_000_000_000


def trace_id(number: int) -> str:
    return f"{number:04x}" + "0" * 28


def add(client: Client, number: int, agent: str = "bot", **fields: Any) -> None:
    """A trace of one span."""
    span = Span(
        trace_id=trace_id(number),
        span_id=f"{number:016x}",
        name=f"answer {number}",
        start_ns=number * SECOND,
        end_ns=(number + 1) * SECOND,
        **fields,
    )
    client.spans.put([SpanRecord(span=span, agent=agent)])


def test_a_query_that_means_nothing_is_refused(http: httpx2.Client) -> None:
    for query in (
        {"cursor": "x"},
        {"cursor": "1"},
        {"sort": "worst"},
        {"sort": "slowest", "cursor": "x"},
        {"limit": "0"},
        {"since": "-1"},
        {"errors": "maybe"},
        {"name": ""},
        {"min_cost_usd": "nan"},
        {"after": "-1"},
        {"agnet": "bot"},
    ):
        answer = http.get("/v1/traces", params=query)
        assert answer.status_code == 422, query
        assert answer.json()["errors"]
    for id in ("000", "x" * 201):
        assert http.get(f"/v1/traces/{id}").status_code == 422


def test_the_client_lists_follows_and_looks_at_traces(server: RunningServer) -> None:
    with Client(server.url) as client:
        add(client, 1, agent="one")
        mark = client.traces.mark()
        add(client, 2, agent="two", status="error")
        found, cursor = client.traces.list(TraceFilter(agent="two", errors=True), limit=5)
        assert ([trace.name for trace in found], cursor) == (["answer 2"], None)
        since = TraceFilter(since_ns=2 * SECOND, until_ns=3 * SECOND, rollouts=True)
        assert [trace.name for trace in client.traces.list(since)[0]] == ["answer 2"]
        new, later = client.traces.after(mark)
        assert [trace.name for trace in new] == ["answer 2"]
        assert client.traces.after(later) == ([], later)
        detail = client.traces.get(trace_id(2))
        assert detail is not None
        assert [span.name for span in detail.spans] == ["answer 2"]
        assert client.traces.get("f" * 32) is None
