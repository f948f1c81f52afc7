"""Traces: a summary of each, and its spans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from ratchet.llm import price
from ratchet.server.agent_limits import BY_QUERY, BY_TRACE
from ratchet.server.api.fields import Limit, Request, UnixTime
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.types import Span
from ratchet.types.trace import Sort, Trace, TraceDetail, TraceFacets, TraceFilter, TraceSkeleton

group = RouteGroup("traces")

Id = Annotated[str, Meta(min_length=1, max_length=200)]
TraceCursor = Annotated[str, Meta(pattern=r"^-?[0-9]{1,19}\.[0-9]{1,18}$")]
Amount = Annotated[float, Meta(ge=0, le=1e12)]
Mark = Annotated[int, Meta(ge=0, le=2**62)]
Many = Annotated[int, Meta(ge=0, le=100_000)]

MIN_PREFIX_LENGTH = 4
"""Minimum length of a prefix of a trace's id, in characters."""


class Criteria(Request, frozen=True, kw_only=True):
    """Filter for traces."""

    agent: Id | None = None
    """The live agent, or the queue of the rollout."""
    errors: bool = False
    """Only traces with a failed span."""
    since: UnixTime | None = None
    """Only traces that began at this time or later, in Unix seconds."""
    until: UnixTime | None = None
    """Only traces that began before this time, in Unix seconds."""
    min_duration_s: Amount | None = None
    min_cost_usd: Amount | None = None
    name: Annotated[str, Meta(min_length=1, max_length=1_000)] | None = None
    """Only traces whose name contains this, ignoring case."""
    conversation_id: Id | None = None
    feedback: bool = False
    """Only traces with feedback."""
    rollouts: bool = False
    """Include traces of rollouts."""
    own_calls: bool = True
    """Include traces of Ratchet's own model calls: of the coach and of judges."""
    candidate_id: Id | None = None
    """Only live calls that ran this candidate."""
    experiment_id: Id | None = None
    """Only live calls in this canary."""
    arm: Literal["baseline", "candidate"] | None = None
    """Only live calls in this arm of a canary."""
    group: Id | None = None
    """Only live calls of this group of users or inputs."""
    search: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    """Only live traces with all of these words in their input, output, error, user, conversation,
    id, models or names of steps: in double quotes as a phrase; the last word, and each before an
    asterisk, as a prefix."""
    model: Id | None = None
    """Only live traces that called the model of this name."""
    user: Id | None = None
    """Only live traces of this user."""

    @property
    def criteria(self) -> TraceFilter:
        """The same criteria as a filter of the store."""
        return TraceFilter(
            agent=self.agent,
            errors=self.errors,
            since_ns=_nanoseconds(self.since),
            until_ns=_nanoseconds(self.until),
            min_duration_s=self.min_duration_s,
            min_cost_usd=self.min_cost_usd,
            name=self.name,
            conversation_id=self.conversation_id,
            feedback=self.feedback,
            rollouts=self.rollouts,
            own_calls=self.own_calls,
            candidate_id=self.candidate_id,
            experiment_id=self.experiment_id,
            arm=self.arm,
            group=self.group,
            search=self.search,
            model=self.model,
            user=self.user,
        )


class TraceQuery(Criteria, frozen=True, kw_only=True):
    """Filter and order of traces."""

    sort: Sort = "newest"
    limit: Limit = 100
    cursor: TraceCursor | None = None
    """The previous page's `next_cursor`."""
    after: Mark | None = None
    """The `mark` of an earlier response: only traces with data stored since then, earliest first.
    Not paged.
    """


class TracePage(msgspec.Struct, frozen=True):
    """One page of traces."""

    traces: list[Trace]
    next_cursor: str | None
    """A page examines a fixed number of traces, so it may be short or empty and still have a next
    one. `slowest` and `costliest` sort the traces examined for each page.
    """
    mark: int
    """Position in the store; pass it as `after` to get newer traces."""
    complete_until: float | None
    """Unix seconds of the first change that searches and filters by model or user do not see yet;
    None if they see all."""


@group.route("GET", "/v1/traces", READ, agents=BY_QUERY)
async def list_traces(server: Services, query: TraceQuery) -> TracePage:
    """List traces, newest first; or the slowest or costliest of 2,000 traces per page."""
    traces = server.store.traces
    filters = query.criteria
    if query.after is not None:
        changed, mark = await server.in_thread(
            traces.after, query.after, filters, price=price, texts=True
        )
        state = await server.in_thread(server.store.trace_index.state)
        return TracePage(changed, None, mark, state.complete_until)
    mark = await server.in_thread(traces.mark)
    options = {"sort": query.sort, "limit": query.limit, "cursor": query.cursor, "price": price}
    page, cursor = await server.in_thread(traces.list, filters, texts=True, **options)
    state = await server.in_thread(server.store.trace_index.state)
    return TracePage(page, cursor, mark, state.complete_until)


@group.route("GET", "/v1/trace-facets", READ, agents=BY_QUERY)
async def get_facets(server: Services, query: Criteria) -> TraceFacets:
    """Count the agents, models, users and outcomes of the live traces that match a filter."""
    index = server.store.trace_index
    await server.in_thread(index.catch_up, price)
    return await server.in_thread(index.facets, query.criteria)


class DetailQuery(Request, frozen=True, kw_only=True):
    """Number of spans to return."""

    spans: Many = 10_000
    """At most this many, in order of their start."""


@group.route("GET", "/v1/traces/{id}", READ, agents=BY_TRACE)
async def get_trace(server: Services, id: str, query: DetailQuery) -> TraceDetail:
    """Get a trace with its spans and its feedback, by its id or a prefix of the id."""
    return await _found(server, server.store.traces.get, id, query.spans)


@group.route("GET", "/v1/traces/{id}/skeleton", READ, agents=BY_TRACE)
async def get_skeleton(server: Services, id: str, query: DetailQuery) -> TraceSkeleton:
    """Get a trace without its spans' attributes, by its id or a prefix of the id."""
    return await _found(server, server.store.traces.skeleton, id, query.spans)


@group.route("GET", "/v1/traces/{id}/spans/{span_id}", READ, agents=BY_TRACE)
async def get_span(server: Services, id: str, span_id: str) -> Span:
    """Get one span of a trace, with its attributes and events."""
    span = await server.in_thread(server.store.traces.span, id, span_id)
    if span is None:
        raise HttpProblem(404, f"The trace {id[:200]!r} has no span {span_id[:200]!r}.")
    return span


Found = TypeVar("Found")


async def _found(server: Services, read: Callable[..., Found | None], id: str, spans: int) -> Found:
    """Read a trace by its id or a prefix of it.

    Raises:
        HttpProblem: There is none (404), or the prefix is too short or of several (422).
    """
    if not MIN_PREFIX_LENGTH <= len(id) <= 200:
        raise HttpProblem(422, f"An id has {MIN_PREFIX_LENGTH} to 200 characters.", field="id")
    trace = await server.in_thread(read, id, limit=spans, price=price)
    if trace is None:
        ids = await server.in_thread(server.store.traces.find, id, 2)
        if len(ids) > 1:
            raise HttpProblem(
                422, f"{id!r} is the prefix of several traces; give more characters.", field="id"
            )
        if ids:
            trace = await server.in_thread(read, ids[0], limit=spans, price=price)
    if trace is None:
        raise HttpProblem(404, f"There is no trace {id!r}.")
    return trace


def _nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1e9)
