"""Events: a stream of changes, as server-sent events."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator

import msgspec

from ratchet.server.api.fields import Request
from ratchet.server.routes import READ_ONLY, RouteGroup, StreamResponse
from ratchet.server.services import Services

group = RouteGroup("events")

POLL_INTERVAL_S = 1.0
"""Seconds between queries of the store, since another server may have written events."""

KEEP_ALIVE_S = 15.0
"""Seconds without an event after which a comment keeps the connection alive."""

EVENTS_REREAD = 200
"""Events to reread: on Postgres, a number may become visible after a higher one."""


class EventQuery(Request, frozen=True, kw_only=True):
    """Start of the stream."""

    after: int | None = None
    """Number of an event; by default the stream starts now. The header Last-Event-ID, which clients
    send when they reconnect, takes precedence.
    """


@group.route("GET", "/v1/events", READ_ONLY, media_type="text/event-stream")
async def stream_events(
    server: Services, query: EventQuery, headers: dict[str, str]
) -> StreamResponse:
    """Stream events.

    Each event has a number (`id`), a kind such as `rollouts.finished` (`event`) and JSON (`data`).
    Events are hints: delivered at least once, soon, roughly in order, and stored for some days.
    """
    last = headers.get("last-event-id", "")
    after = int(last) if last.isascii() and last.isdigit() and len(last) < 19 else query.after
    if after is None:
        after = await server.in_thread(server.store.events.newest)
    return StreamResponse(_follow(server, max(0, min(after, 2**62))))


async def _follow(server: Services, after: int) -> AsyncIterator[bytes]:
    # Sends an id at once, so that a client that reconnects before the first event misses none.
    yield f"id: {after}\n: connected\n\n".encode()
    sent: OrderedDict[int, None] = OrderedDict()
    floor, idle_s = after, 0.0
    while not server.closing.is_set():
        recent = await server.in_thread(
            server.store.events.after, max(floor, after - EVENTS_REREAD)
        )
        new = [event for event in recent if event.seq not in sent]
        for event in new:
            sent[event.seq] = None
            data = msgspec.json.encode({"at": event.at, **_object(event.body)}).decode()
            yield f"id: {event.seq}\nevent: {event.kind}\ndata: {data}\n\n".encode()
            after = max(after, event.seq)
        while len(sent) > 4 * EVENTS_REREAD:
            sent.popitem(last=False)
        if new:
            idle_s = 0.0
            continue
        idle_s += POLL_INTERVAL_S
        if idle_s >= KEEP_ALIVE_S:
            idle_s = 0.0
            yield b": still here\n\n"
        await server.activity_log.wait(POLL_INTERVAL_S)


def _object(body: object) -> dict[str, object]:
    return body if isinstance(body, dict) else {"body": body}
