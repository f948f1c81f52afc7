"""Traces: what ran, one line a run, and each with its spans."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.llm import price
from ratchet.server.api.fields import Limit, Request, UnixTime
from ratchet.server.problems import Problem
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.types.trace import Sort, Trace, TraceDetail, TraceFilter

group = RouteGroup("traces")

Id = Annotated[str, Meta(min_length=1, max_length=200)]
TraceCursor = Annotated[str, Meta(pattern=r"^-?[0-9]{1,19}\.[0-9]{1,18}$")]
Amount = Annotated[float, Meta(ge=0, le=1e12)]
Mark = Annotated[int, Meta(ge=0, le=2**62)]
Many = Annotated[int, Meta(ge=0, le=100_000)]

SHORTEST = 4
"""Characters of the start of a trace's id that may stand for it."""


class TraceQuery(Request, frozen=True, kw_only=True):
    """Which traces, in what order."""

    agent: Id | None = None
    """The live agent, or the queue of the rollout."""
    errors: bool = False
    """Only those with a span that failed."""
    since: UnixTime | None = None
    """Only those that began then or later, in Unix seconds."""
    until: UnixTime | None = None
    """Only those that began before."""
    min_duration_s: Amount | None = None
    min_cost_usd: Amount | None = None
    name: Annotated[str, Meta(min_length=1, max_length=1_000)] | None = None
    """Only those whose name has this in it, in whatever case."""
    conversation_id: Id | None = None
    feedback: bool = False
    """Only those that somebody said something of."""
    rollouts: bool = False
    """Those of rollouts, too."""
    sort: Sort = "newest"
    limit: Limit = 100
    cursor: TraceCursor | None = None
    """As the page before ended with."""
    after: Mark | None = None
    """A mark of an answer before: only traces of which something was stored since then, the
    earliest first. There are no pages then."""


class TracePage(msgspec.Struct, frozen=True):
    """Traces."""

    traces: list[Trace]
    next_cursor: str | None
    """A page may be short, or empty, and yet have a next: so many are looked at for one. Of the
    slowest and the costliest, each page has those of the traces that were looked at for it."""
    mark: int
    """How far the store had come; `after` goes on from there."""


@group.route("GET", "/v1/traces", READ)
async def list_traces(server: Services, query: TraceQuery) -> TracePage:
    """List traces, newest first; or the slowest or costliest of 2,000 traces a page."""
    traces = server.store.traces
    wanted = TraceFilter(
        agent=query.agent,
        errors=query.errors,
        since_ns=_nanoseconds(query.since),
        until_ns=_nanoseconds(query.until),
        min_duration_s=query.min_duration_s,
        min_cost_usd=query.min_cost_usd,
        name=query.name,
        conversation_id=query.conversation_id,
        feedback=query.feedback,
        rollouts=query.rollouts,
    )
    if query.after is not None:
        found, mark = await server.in_thread(traces.after, query.after, wanted, price=price)
        return TracePage(found, None, mark)
    mark = await server.in_thread(traces.mark)
    options = {"sort": query.sort, "limit": query.limit, "cursor": query.cursor, "price": price}
    page, cursor = await server.in_thread(traces.list, wanted, **options)
    return TracePage(page, cursor, mark)


class DetailQuery(Request, frozen=True, kw_only=True):
    """How much of a trace."""

    spans: Many = 10_000
    """At most so many, those that started first."""


@group.route("GET", "/v1/traces/{id}", READ)
async def get_trace(server: Services, id: str, query: DetailQuery) -> TraceDetail:
    """Look at a trace with its spans and its feedback; the start of its id will do."""
    if not SHORTEST <= len(id) <= 200:
        raise Problem(422, f"An id has {SHORTEST} to 200 characters.", field="id")
    traces = server.store.traces
    found = await server.in_thread(traces.get, id, limit=query.spans, price=price)
    if found is None:
        ids = await server.in_thread(traces.find, id, 2)
        if len(ids) > 1:
            raise Problem(422, f"{id!r} begins several traces; give more of it.", field="id")
        if ids:
            found = await server.in_thread(traces.get, ids[0], limit=query.spans, price=price)
    if found is None:
        raise Problem(404, f"There is no trace {id!r}.")
    return found


def _nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1e9)
