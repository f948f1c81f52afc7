"""Aliases: the first API of Agent Lightning, for clients written against it.

`GET /task` claims the next rollout, `GET /resources/…` fetches its resources, `POST /rollout`
reports its outcome. They use the same queue and the same leases.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ratchet.observe.ids import attempt_span_id, attempt_trace_id
from ratchet.server.access import Caller
from ratchet.server.api import candidates
from ratchet.server.api.fields import Fence, JsonObject, LeaseS, Name, Request, RolloutId, WaitS
from ratchet.server.api.rollouts import checked_span
from ratchet.server.problems import Problem
from ratchet.server.routes import READ, RUN, RouteGroup
from ratchet.server.services import Services
from ratchet.types import FINAL, Outcome, Resource, RolloutStatus, Score, Span

group = RouteGroup("aliases")

SOURCE = "source"
"""Id of the resources of rollouts that use the agent's own."""


class TaskQuery(Request, frozen=True, kw_only=True):
    """Parameters of a claim."""

    queue: Name = "default"
    wait_s: WaitS = 0.0
    lease_s: LeaseS = 600.0
    """Long enough for a whole rollout, since these clients send no heartbeats."""


class NextTask(msgspec.Struct, frozen=True, kw_only=True):
    """The next task."""

    rollout_id: str
    attempt: int
    """Send it back with the rollout."""
    input: Any
    metadata: dict[str, Any]
    mode: str
    """train, val or test, taken from the task's metadata."""
    resources_id: str
    """Fetch from /resources/{resources_id}."""


class OptionalTask(msgspec.Struct, frozen=True, kw_only=True):
    """The next task, if any."""

    is_available: bool
    task: NextTask | None = None


@group.route("GET", "/task", RUN, waits=True)
async def next_task(server: Services, query: TaskQuery, caller: Caller) -> OptionalTask:
    """Claim the next task of a queue."""
    worker = f"alias/{caller.key_id or caller.address}"
    claims = await server.dispatcher.claim([query.queue], worker, 1, query.lease_s, query.wait_s)
    if not claims:
        return OptionalTask(is_available=False)
    rollout = claims[0].rollout
    mode = rollout.metadata.get("mode", "train")
    return OptionalTask(
        is_available=True,
        task=NextTask(
            rollout_id=rollout.id,
            attempt=claims[0].fence,
            input=rollout.input,
            metadata=rollout.metadata,
            mode=mode if isinstance(mode, str) else "train",
            resources_id=rollout.candidate_id or SOURCE,
        ),
    )


class NamedResources(msgspec.Struct, frozen=True, kw_only=True):
    """Resources by name."""

    resources_id: str
    resources: dict[str, Resource]


class AgentQuery(Request, frozen=True, kw_only=True):
    """The agent."""

    agent: Name = "default"


@group.route("GET", "/resources/latest", READ)
async def latest_resources(server: Services, query: AgentQuery) -> NamedResources:
    """Get the resources that an agent uses now."""
    active = await server.in_thread(server.store.agents.active, query.agent)
    if active is None:
        return NamedResources(resources_id=SOURCE, resources={})
    return await resources_by_id(server, active.candidate_id)


@group.route("GET", "/resources/{resources_id}", READ)
async def resources_by_id(server: Services, resources_id: str) -> NamedResources:
    """Get the resources of a task."""
    if resources_id == SOURCE:
        return NamedResources(resources_id=SOURCE, resources={})
    candidate = await candidates.find(server, resources_id)
    return NamedResources(resources_id=candidate.id, resources=candidate.resources)


class FinishedRollout(Request, frozen=True, kw_only=True):
    """A rollout that ended."""

    rollout_id: RolloutId
    attempt: Fence | None = None
    """The task's `attempt`; by default the newest."""
    final_reward: float | None = None
    output: Any = None
    error: Annotated[str, Meta(max_length=100_000)] = ""
    """Non-empty: the rollout failed."""
    triplets: list[Any] | None = None
    """State, action and reward of each step; stored in a span."""
    trace: list[Span] = []
    metadata: JsonObject = {}
    """Stored in a span."""


class FinishedRolloutStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the report."""

    rollout_id: str
    status: RolloutStatus


@group.route("POST", "/rollout", RUN)
async def post_rollout(server: Services, body: FinishedRollout) -> FinishedRolloutStatus:
    """Report the outcome of a rollout."""
    found = await server.in_thread(server.store.rollouts.get, [body.rollout_id])
    rollout = found.get(body.rollout_id)
    if rollout is None:
        raise Problem(404, f"There is no rollout {body.rollout_id!r}.", field="rollout_id")
    now = time.time()
    fence = rollout.fence if body.attempt is None else body.attempt
    spans = [checked_span(span, f"trace[{number}]") for number, span in enumerate(body.trace)]
    extra = {"triplets": body.triplets, "metadata": body.metadata or None}
    attributes = {
        f"ratchet.{name}": msgspec.json.encode(v).decode() for name, v in extra.items() if v
    }
    if attributes:
        spans.append(_note(rollout.id, fence, attributes, now))
    reward = body.final_reward
    attempts = await server.in_thread(server.store.rollouts.attempts, rollout.id)
    begun = next((one.started_at for one in attempts if one.fence == fence), now)
    outcome = Outcome(
        rollout_id=rollout.id,
        fence=fence,
        status="failed" if body.error else "succeeded",
        started_at=begun,
        ended_at=now,
        duration_s=max(0.0, now - begun),
        output=body.output,
        error=body.error,
        spans=tuple(spans),
        scores=()
        if reward is None
        else (Score(evaluator="reward", version="agent", value=reward),),
    )
    status = (await server.dispatcher.finish([outcome]))[rollout.id, fence]
    if status is None:
        how = f"is {rollout.status}" if rollout.status in FINAL else "was claimed again"
        raise Problem(
            409,
            f"Attempt {fence} of rollout {rollout.id!r} has ended: the rollout {how}.",
            field="attempt",
        )
    return FinishedRolloutStatus(rollout_id=rollout.id, status=status)


def _note(rollout_id: str, fence: int, attributes: dict[str, Any], now: float) -> Span:
    moment = int(now * 1e9)
    return Span(
        trace_id=attempt_trace_id(rollout_id, fence),
        span_id=attempt_span_id(rollout_id, fence),
        name="rollout",
        start_ns=moment,
        end_ns=moment,
        attributes=attributes,
    )
