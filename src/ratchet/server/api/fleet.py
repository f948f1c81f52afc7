"""Fleet: for a machine whose rollouts run elsewhere: ended rollouts, runners and queues."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.server.agent_limits import BY_IDS, agent_of_queue, of_answer
from ratchet.server.api.fields import MAX_ITEMS, Limit, Request, RolloutId, WaitS
from ratchet.server.routes import READ, READ_BY_RUNNERS, RouteGroup
from ratchet.server.services import Services
from ratchet.store import Store
from ratchet.types import EndedRollout, EndedRollouts, FleetRunner

group = RouteGroup("fleet")

ENDED_AT_ONCE = 64
"""Maximum number of ended rollouts in one answer: each may have a large output."""


class AwaitedRollouts(Request, frozen=True, kw_only=True):
    """Rollouts whose end is awaited."""

    ids: Annotated[list[RolloutId], Meta(max_length=MAX_ITEMS)]
    wait_s: WaitS = 0.0
    """Seconds to wait when none has ended."""


@group.route("POST", "/v1/rollouts/wait", READ, waits=True, agents=BY_IDS)
async def wait_for_rollouts(server: Services, body: AwaitedRollouts) -> EndedRollouts:
    """Wait until one of several rollouts has ended.

    Send it again with the ids of the others: one request waits for all that are pending.
    """
    ended, unknown = await server.dispatcher.ended(body.ids, body.wait_s)
    records = await server.in_thread(_with_records, server.store, ended[:ENDED_AT_ONCE])
    return EndedRollouts(records, tuple(unknown))


def _with_records(store: Store, ids: list[str]) -> tuple[EndedRollout, ...]:
    rollouts = store.rollouts.get(ids)
    spans = store.spans.of_newest_attempts(ids)
    scores = store.scores.of(ids)
    return tuple(
        EndedRollout(rollouts[id], tuple(spans[id]), tuple(scores[id]))
        for id in ids
        if id in rollouts
    )


class FleetRunners(msgspec.Struct, frozen=True):
    """Runners, most recently seen first."""

    runners: list[FleetRunner]


@group.route("GET", "/v1/runners", READ)
async def list_runners(server: Services) -> FleetRunners:
    """List the runners that claim from this server.

    Of several servers on one store, each knows its own.
    """
    return FleetRunners(list(await server.dispatcher.runners()))


class QueueFilter(Request, frozen=True, kw_only=True):
    """Filter for queues."""

    prefix: Annotated[str, Meta(max_length=300)] = ""
    """Only queues whose names have this prefix."""
    limit: Limit = 100


class QueueNames(msgspec.Struct, frozen=True):
    """Names of queues, in order."""

    queues: list[str]


@group.route(
    "GET",
    "/v1/queues",
    READ_BY_RUNNERS,
    agents=of_answer(lambda answer: map(agent_of_queue, answer.queues)),
)
async def list_queues(server: Services, query: QueueFilter) -> QueueNames:
    """List the queues that have queued rollouts."""
    names = await server.in_thread(server.store.rollouts.queues, query.prefix, query.limit)
    return QueueNames(names)
