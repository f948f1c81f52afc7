"""Fleet: what a machine asks whose rollouts run elsewhere: their ends, the runners, the queues."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.server.api.fields import MAX_ITEMS, Limit, Request, RolloutId, WaitS
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.store import Store
from ratchet.types import Rollout, Score, Span

group = RouteGroup("fleet")

ENDED_AT_ONCE = 64
"""Most ended rollouts in one answer: each may have a large output."""


class AwaitedRollouts(Request, frozen=True, kw_only=True):
    """Rollouts whose ends are awaited."""

    ids: Annotated[list[RolloutId], Meta(max_length=MAX_ITEMS)]
    wait_s: WaitS = 0.0
    """Seconds to wait when none has ended."""


class EndedRollout(msgspec.Struct, frozen=True):
    """A rollout that has ended."""

    rollout: Rollout
    spans: list[Span]
    """Of its final attempt, in the order they started."""
    scores: list[Score]
    """Those that the agent itself gave, and those stored since."""


class EndedRollouts(msgspec.Struct, frozen=True):
    """Rollouts that have ended; some of them, when they are many."""

    ended: list[EndedRollout]
    unknown: list[str]
    """Ids of rollouts that do not exist."""


@group.route("POST", "/v1/rollouts/wait", READ, waits=True)
async def wait_for_rollouts(server: Services, body: AwaitedRollouts) -> EndedRollouts:
    """Wait until one of several rollouts has ended.

    Send it again with the ids of the others: one request waits for all that are pending.
    """
    ended, unknown = await server.dispatcher.ended(body.ids, body.wait_s)
    return EndedRollouts(
        await server.in_thread(_with_records, server.store, ended[:ENDED_AT_ONCE]), unknown
    )


def _with_records(store: Store, ids: list[str]) -> list[EndedRollout]:
    found = store.rollouts.get(ids)
    spans = store.spans.of_newest_attempts(ids)
    scores = store.scores.of(ids)
    return [EndedRollout(found[id], spans[id], scores[id]) for id in ids if id in found]


class FleetRunner(msgspec.Struct, frozen=True):
    """A runner that claims from this server."""

    name: str
    queues: list[str]
    """The queues that it serves; one that ends with /* stands for all that begin so."""
    seen_s: float
    """Seconds since its last claim."""


class FleetRunners(msgspec.Struct, frozen=True):
    """Runners, the one seen last first."""

    runners: list[FleetRunner]


@group.route("GET", "/v1/runners", READ)
async def list_runners(server: Services) -> FleetRunners:
    """List the runners that claim from this server.

    Of several servers on one store, each knows its own.
    """
    return FleetRunners(
        [FleetRunner(r.name, list(r.queues), r.seen_s) for r in await server.dispatcher.runners()]
    )


class QueueFilter(Request, frozen=True, kw_only=True):
    """Filter of queues."""

    prefix: Annotated[str, Meta(max_length=300)] = ""
    """Only those whose names begin so."""
    limit: Limit = 100


class QueueNames(msgspec.Struct, frozen=True):
    """Names of queues, in order."""

    queues: list[str]


@group.route("GET", "/v1/queues", READ)
async def list_queues(server: Services, query: QueueFilter) -> QueueNames:
    """List the queues that have queued rollouts."""
    found = await server.in_thread(server.store.rollouts.queues, query.prefix, query.limit)
    return QueueNames(found)
