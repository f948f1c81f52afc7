"""Spans: the recorded steps of agents."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.server.agent_limits import BY_TRACE_OR_AGENT, of_request
from ratchet.server.api.fields import MAX_ITEMS, Name, Page, Request
from ratchet.server.api.rollouts import checked_span
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import READ, SEND_SPANS, RouteGroup
from ratchet.server.services import Services
from ratchet.types import Span, SpanRecord

group = RouteGroup("spans")

TraceId = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]


class NewSpan(Request, frozen=True, kw_only=True):
    """A span of live traffic. Those of an attempt are in its report, or come with its token."""

    span: Span
    agent: Name | None = None


class NewSpans(Request, frozen=True, kw_only=True):
    """Spans; each is stored once."""

    records: Annotated[list[NewSpan], Meta(max_length=MAX_ITEMS)]


class SpansStored(msgspec.Struct, frozen=True):
    """Number of stored spans."""

    stored: int


@group.route(
    "POST",
    "/v1/spans",
    SEND_SPANS,
    agents=of_request(lambda body: [record.agent for record in body.records]),
)
async def add_spans(server: Services, body: NewSpans) -> SpansStored:
    """Store live spans; the response follows the commit. For OpenTelemetry, use /v1/traces."""
    records = [_record(number, new) for number, new in enumerate(body.records)]
    if records:
        await server.spans.write(records)
    return SpansStored(len(records))


def _record(number: int, new: NewSpan) -> SpanRecord:
    where = f"records[{number}].span"
    span = checked_span(new.span, where)
    for name, value, digits in (("trace_id", span.trace_id, 32), ("span_id", span.span_id, 16)):
        if len(value) != digits or not all(c in "0123456789abcdef" for c in value):
            raise HttpProblem(
                422, f"It must be {digits} lower-case hex digits.", field=f"{where}.{name}"
            )
    return SpanRecord(span=span, agent=new.agent or "")


class SpanQuery(Page, frozen=True, kw_only=True):
    """Filter for spans: those of a trace, or the newest of a live agent."""

    trace_id: TraceId | None = None
    agent: Name | None = None


class SpanPage(msgspec.Struct, frozen=True):
    """Spans; of a trace in order of start, of an agent newest first."""

    spans: list[Span]
    next_cursor: str | None


@group.route("GET", "/v1/spans", READ, agents=BY_TRACE_OR_AGENT)
async def list_spans(server: Services, query: SpanQuery) -> SpanPage:
    """List the spans of a trace, or of a live agent."""
    spans = server.store.spans
    if (query.trace_id is None) == (query.agent is None):
        raise HttpProblem(422, "Give either trace_id or agent.", field="trace_id")
    if query.trace_id is not None:
        return SpanPage(await server.in_thread(spans.of_trace, query.trace_id), None)
    page, cursor = await server.in_thread(spans.live, query.agent, query.limit, query.cursor)
    return SpanPage(page, cursor)
