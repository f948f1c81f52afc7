"""Reruns: a rollout or a live trace, queued again and compared with the original."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

import msgspec
from msgspec import Meta

from ratchet.llm import price
from ratchet.server.api.fields import QueueName, Request, RolloutId
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import DEVELOP, READ, RouteGroup
from ratchet.server.runners import serves
from ratchet.server.services import Services
from ratchet.store import Store
from ratchet.store.turns import QUEUE_WILDCARD
from ratchet.types import InputError, NotFound, Rollout, RolloutStatus

group = RouteGroup("rollouts")

TraceId = Annotated[str, Meta(min_length=4, max_length=200)]


class NewRerun(Request, frozen=True, kw_only=True):
    """What to run again: a rollout or a trace."""

    rollout: RolloutId | None = None
    trace: TraceId | None = None
    id: RolloutId | None = None
    """Of the new rollout; chosen by the caller, so that a repeated request creates it once."""
    queue: QueueName | None = None
    """Queue of the new rollout; by default that of the original, or its agent's name."""


class Rerun(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout that runs something again."""

    rollout_id: str
    queue: str
    runners: list[str]
    """Names of the runners of this server that serve the queue; without one, the rollout waits."""


class RerunPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a rollout or trace would run again."""

    queue: str
    """The original's queue, or its agent's name."""
    runners: list[str]
    """Names of the runners that serve it."""
    others: list[str]
    """Other queues that runners of this server serve by name."""
    problem: str
    """Why it cannot run again, as a sentence; empty when it can."""


class PlaceQuery(Request, frozen=True, kw_only=True):
    """What would run again: a rollout or a trace."""

    rollout: RolloutId | None = None
    trace: TraceId | None = None


@group.route("GET", "/v1/reruns/place", READ)
async def place_of_rerun(server: Services, query: PlaceQuery) -> RerunPlace:
    """Get the queue in which a rollout or trace would run again, and who serves it."""
    problem, queue = "", ""
    try:
        original = await server.in_thread(_original, server.store, query.rollout, query.trace)
        queue = original.queue
    except HttpProblem as error:
        if error.status != 422 or not (query.rollout or query.trace):
            raise
        problem = error.detail
    present = await server.dispatcher.runners()
    queues = {
        name for runner in present for name in runner.queues if not name.endswith(QUEUE_WILDCARD)
    }
    return RerunPlace(
        queue=queue,
        runners=[runner.name for runner in present if serves(runner, queue)],
        others=sorted(queues - {queue}),
        problem=problem,
    )


@group.route("POST", "/v1/reruns", DEVELOP, audited=True)
async def run_again(server: Services, body: NewRerun) -> Rerun:
    """Queue a rollout that runs a rollout or a live trace again.

    It has the original's input, candidate, expected answer and seed. The original stays as it is.
    Until a runner claims it, `POST /v1/rollouts/cancel` takes it back.
    """
    rollout = await server.in_thread(_original, server.store, body.rollout, body.trace)
    rerun = msgspec.structs.replace(
        rollout, id=body.id or uuid4().hex, queue=body.queue or rollout.queue
    )
    await server.dispatcher.create([rerun])
    serving = await _serving(server, rerun.queue)
    return Rerun(rollout_id=rerun.id, queue=rerun.queue, runners=serving)


class Repeated(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a comparison."""

    rollout_id: str
    """Empty for a live trace."""
    trace_id: str
    """Empty if no span was received."""
    status: RolloutStatus
    output: Any
    error: str
    duration_s: float | None
    cost_usd: float | None
    known_usd: float


class RerunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A rerun compared with the original."""

    queue: str
    runners: list[str]
    """Names of the runners that serve its queue."""
    original: Repeated | None
    """Null when it has been deleted."""
    rerun: Repeated


@group.route("GET", "/v1/reruns/{id}", READ)
async def compare_rerun(server: Services, id: str) -> RerunComparison:
    """Get a rerun together with the rollout or trace that it repeats."""
    comparison = await server.in_thread(_compared, server.store, id)
    return msgspec.structs.replace(comparison, runners=await _serving(server, comparison.queue))


async def _serving(server: Services, queue: str) -> list[str]:
    return [runner.name for runner in await server.dispatcher.runners() if serves(runner, queue)]


def _original(store: Store, rollout: str | None, trace: str | None) -> Rollout:
    """The rollout to queue: as the original, but new.

    Raises:
        HttpProblem: There is no such original (404), or it cannot run again (422).
    """
    from ratchet.autopilot.rerun import rerun_of_rollout, rerun_of_trace

    if (rollout is None) == (trace is None):
        raise HttpProblem(422, "Name a rollout or a trace.", field="rollout")
    try:
        if rollout is not None:
            return rerun_of_rollout(store, rollout)
        assert trace is not None
        return rerun_of_trace(store, trace)
    except NotFound as error:
        raise HttpProblem(404, error.message) from None
    except InputError as error:
        raise HttpProblem(422, error.message) from None


def _compared(store: Store, id: str) -> RerunComparison:
    from ratchet.autopilot.rerun import original_of

    rerun = store.rollouts.get([id]).get(id)
    about = None if rerun is None else original_of(rerun)
    if rerun is None or about is None:
        raise HttpProblem(
            404, f"There is no rollout {id[:200]!r} that runs another again.", field="id"
        )
    kind, original = about
    return RerunComparison(
        queue=rerun.queue,
        runners=[],
        original=_side(store, original) if kind == "rollout" else _live_side(store, original),
        rerun=_side(store, rerun.id) or _of(rerun, ""),
    )


def _side(store: Store, id: str) -> Repeated | None:
    rollout = store.rollouts.get([id]).get(id)
    if rollout is None:
        return None
    spans = store.spans.of(id)
    return _of(rollout, spans[-1].trace_id if spans else "")


def _live_side(store: Store, id: str) -> Repeated | None:
    from ratchet.autopilot.recorded_rollout import Unusable, recorded_rollout, recording_of

    skeleton = store.traces.skeleton(id, limit=1, price=price)
    recording = None if skeleton is None else recording_of(store, skeleton.trace)
    if skeleton is None or recording is None:
        return None
    output, error = None, ""
    try:
        rollout = recorded_rollout(recording)
        output, error = rollout.output, rollout.error
    except Unusable as unusable:
        error = f"Nothing to compare: {unusable}."
    trace = skeleton.trace
    return Repeated(
        rollout_id="",
        trace_id=id,
        status="failed" if recording.failed else "succeeded",
        output=output,
        error=error,
        duration_s=trace.duration_s,
        cost_usd=trace.cost_usd,
        known_usd=trace.known_usd,
    )


def _of(rollout: Rollout, trace_id: str) -> Repeated:
    return Repeated(
        rollout_id=rollout.id,
        trace_id=trace_id,
        status=rollout.status,
        output=rollout.output,
        error=rollout.error,
        duration_s=rollout.duration_s,
        cost_usd=rollout.cost_usd,
        known_usd=rollout.known_usd,
    )
