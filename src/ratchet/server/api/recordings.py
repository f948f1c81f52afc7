"""Recordings: what traces recorded of their input and output, for datasets."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.server.agent_limits import BY_QUERY
from ratchet.server.api.traces import Criteria, TraceCursor
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.types.trace import TraceRecording

group = RouteGroup("recordings")

Some = Annotated[int, Meta(ge=1, le=200)]


class RecordingQuery(Criteria, frozen=True, kw_only=True):
    """Filter for recordings."""

    limit: Some = 50
    """Traces examined for the page; each has up to three whole spans."""
    cursor: TraceCursor | None = None
    """The previous page's `next_cursor`."""


class RecordingPage(msgspec.Struct, frozen=True):
    """One page of recordings."""

    recordings: list[TraceRecording]
    examined: int
    """Number of traces that were examined for the page."""
    next_cursor: str | None
    """A page may be short or empty and still have a next one."""


@group.route("GET", "/v1/recordings", READ, agents=BY_QUERY)
async def list_recordings(server: Services, query: RecordingQuery) -> RecordingPage:
    """List the root span, the first and the last model call and the feedback of traces, newest
    first."""
    options = {"cursor": query.cursor, "limit": query.limit}
    recordings, examined, cursor = await server.in_thread(
        server.store.recordings.page, query.criteria, **options
    )
    return RecordingPage(recordings, examined, cursor)
