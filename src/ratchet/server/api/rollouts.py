"""Rollouts: create, claim, renew, finish, cancel and query them."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

import msgspec
from msgspec import Meta

from ratchet.server.agent_limits import (
    BY_ATTEMPTS,
    BY_ID,
    BY_IDS,
    BY_QUEUE,
    agent_of_queue,
    of_request,
    of_rollouts,
)
from ratchet.server.api.fields import (
    MAX_ITEMS,
    Fence,
    JsonObject,
    LeaseS,
    Page,
    QueueName,
    Queues,
    Request,
    RolloutId,
    Seed,
    ShortText,
    UnixTime,
    Version,
    WaitS,
)
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import DEVELOP, READ, READ_BY_RUNNERS, RUNNER, RouteGroup
from ratchet.server.services import Services
from ratchet.store.lifecycle import REPORTABLE
from ratchet.store.usage import COST, MAX_USD, claims_no_cost
from ratchet.types import (
    Attempt,
    AttemptStatus,
    Cause,
    Claim,
    Outcome,
    Rollout,
    RolloutStatus,
    Score,
    Span,
)

group = RouteGroup("rollouts")

Pairs = Annotated[list[tuple[RolloutId, Fence]], Meta(max_length=MAX_ITEMS)]
PairOut = Annotated[list[str | int], Meta(min_length=2, max_length=2)]
"""Rollout id and fence. Described as a list, since many OpenAPI tools do not support tuples."""
Ids = Annotated[list[RolloutId], Meta(max_length=MAX_ITEMS)]


class NewRollout(Request, frozen=True, kw_only=True):
    """A rollout to run."""

    input: Any
    """Input of the agent; any JSON value."""
    id: RolloutId | None = None
    """Chosen by the caller, so that a repeated request creates it once; by default generated."""
    queue: QueueName = "default"
    """Queue of the runners that may claim it; also the agent whose settings apply."""
    candidate_id: Version = ""
    """A published candidate; empty for the agent's own source."""
    task_id: ShortText = ""
    expected: Any = None
    metadata: JsonObject = {}
    seed: Seed = 0
    purpose: ShortText = ""
    max_attempts: Annotated[int, Meta(ge=1, le=20)] = 2


class NewRollouts(Request, frozen=True, kw_only=True):
    """Rollouts to run, in this order."""

    rollouts: Annotated[list[NewRollout], Meta(max_length=MAX_ITEMS)]


class RolloutsCreated(msgspec.Struct, frozen=True):
    """Result of queueing rollouts."""

    created: int
    """Number of new rollouts."""
    ids: list[str]
    """Ids of all rollouts, in the order of the request."""


@group.route(
    "POST",
    "/v1/rollouts",
    DEVELOP,
    agents=of_request(lambda body: [agent_of_queue(rollout.queue) for rollout in body.rollouts]),
)
async def create_rollouts(server: Services, body: NewRollouts) -> RolloutsCreated:
    """Queue rollouts.

    In one transaction. Rollouts whose id exists are left unchanged.
    """
    candidates = {new.candidate_id for new in body.rollouts if new.candidate_id}
    stored = (
        await server.in_thread(server.store.candidates.known, candidates) if candidates else set()
    )
    rollouts = []
    for number, new in enumerate(body.rollouts):
        if new.candidate_id and new.candidate_id not in stored:
            raise HttpProblem(
                422,
                f"There is no candidate {new.candidate_id!r}.",
                field=f"rollouts[{number}].candidate_id",
                hint="Publish it first: POST /v1/candidates.",
            )
        rollouts.append(
            Rollout(
                id=new.id or uuid4().hex,
                queue=new.queue,
                candidate_id=new.candidate_id,
                task_id=new.task_id,
                input=new.input,
                expected=new.expected,
                metadata=new.metadata,
                seed=new.seed,
                purpose=new.purpose,
                max_attempts=new.max_attempts,
            )
        )
    created = await server.dispatcher.create(rollouts)
    return RolloutsCreated(created, [rollout.id for rollout in rollouts])


class RolloutFilter(Page, frozen=True, kw_only=True):
    """Filter for rollouts."""

    queue: QueueName | None = None
    status: RolloutStatus | None = None
    purpose: ShortText | None = None
    """Prefix of the purpose."""
    candidate_id: Version | None = None
    task_id: ShortText | None = None


class RolloutPage(msgspec.Struct, frozen=True):
    """One page of rollouts, newest first."""

    rollouts: list[Rollout]
    next_cursor: str | None


@group.route("GET", "/v1/rollouts", READ, agents=BY_QUEUE)
async def list_rollouts(server: Services, query: RolloutFilter) -> RolloutPage:
    """List rollouts, newest first."""
    filters = msgspec.structs.asdict(query)
    return RolloutPage(*await server.in_thread(server.store.rollouts.list, **filters))


class RolloutIds(Request, frozen=True, kw_only=True):
    """Rollouts by id."""

    ids: Ids


class RolloutsById(msgspec.Struct, frozen=True):
    """Rollouts by id; unknown ids are omitted."""

    rollouts: dict[str, Rollout]


@group.route("POST", "/v1/rollouts/lookup", READ_BY_RUNNERS, agents=BY_IDS)
async def lookup_rollouts(server: Services, body: RolloutIds) -> RolloutsById:
    """Get several rollouts."""
    return RolloutsById(await server.in_thread(server.store.rollouts.get, body.ids))


class CountFilter(Request, frozen=True, kw_only=True):
    """Filter for the rollouts to count."""

    queue: QueueName | None = None
    purpose: ShortText | None = None
    """Prefix of the purpose."""
    candidate_id: Version | None = None
    task_id: ShortText | None = None


class StatusCounts(msgspec.Struct, frozen=True):
    """Number of rollouts by status; statuses without rollouts are omitted."""

    counts: dict[RolloutStatus, int]


@group.route("GET", "/v1/rollouts/counts", READ_BY_RUNNERS, agents=BY_QUEUE)
async def count_rollouts(server: Services, query: CountFilter) -> StatusCounts:
    """Count rollouts by status."""
    filters = msgspec.structs.asdict(query)
    return StatusCounts(await server.in_thread(server.store.rollouts.counts, **filters))


class ClaimRequest(Request, frozen=True, kw_only=True):
    """A runner's request for work."""

    worker: Annotated[str, Meta(min_length=1, max_length=200)]
    """Name of the runner."""
    queue: QueueName = "default"
    queues: Annotated[list[Queues], Meta(max_length=100)] = []
    """Several queues, instead of `queue`; they take turns. A trailing /* stands for every queue
    with that prefix."""
    limit: Annotated[int, Meta(ge=1, le=MAX_ITEMS)] = 1
    lease_s: LeaseS = 60.0
    """Seconds until the claims expire, unless renewed by a heartbeat."""
    wait_s: WaitS = 0.0
    """Seconds to wait when nothing is queued."""


class ClaimList(msgspec.Struct, frozen=True):
    """Claimed rollouts; empty when nothing was queued."""

    claims: list[Claim]


@group.route(
    "POST",
    "/v1/rollouts/claim",
    RUNNER,
    waits=True,
    agents=of_request(lambda body: map(agent_of_queue, body.queues or [body.queue])),
)
async def claim_rollouts(server: Services, body: ClaimRequest) -> ClaimList:
    """Claim the oldest queued rollouts of a queue, or of several in turn.

    Each claim has a fencing token and a key for the attempt. If the response is lost, its rollouts
    stay claimed until the lease expires.
    """
    return ClaimList(
        await server.dispatcher.claim(
            body.queues or [body.queue], body.worker, body.limit, body.lease_s, body.wait_s
        )
    )


class Heartbeat(Request, frozen=True, kw_only=True):
    """Attempts that are still running."""

    attempts: Pairs
    """Rollout id and fence of each."""
    lease_s: LeaseS = 60.0


class RunningAttempts(msgspec.Struct, frozen=True):
    """Attempts whose lease was renewed; the others were cancelled, or lost to another runner."""

    running: list[PairOut]


@group.route("POST", "/v1/rollouts/heartbeat", RUNNER, agents=BY_ATTEMPTS)
async def heartbeat_rollouts(server: Services, body: Heartbeat) -> RunningAttempts:
    """Extend leases."""
    renewed = await server.dispatcher.heartbeat(body.attempts, body.lease_s)
    return RunningAttempts([list(pair) for pair in sorted(renewed)])


class ReportedScore(Request, frozen=True, kw_only=True):
    """A reward that the agent itself gave."""

    evaluator: Annotated[str, Meta(min_length=1, max_length=200)]
    version: Version
    value: float | None
    unit: Version = ""
    rationale: str = ""
    error: str = ""


class AttemptReport(Request, frozen=True, kw_only=True):
    """Outcome of one attempt."""

    rollout_id: RolloutId
    fence: Fence
    status: AttemptStatus
    started_at: UnixTime
    ended_at: UnixTime
    duration_s: Annotated[float, Meta(ge=0)] | None
    """Null when the agent was not called."""
    output: Any = None
    error: str = ""
    cause: Cause = ""
    cost_usd: Annotated[float, Meta(ge=0, le=MAX_USD)] | None = 0.0
    """Dollars of model calls recorded by neither a span nor the gateway; null when unknown."""
    spans: list[Span] = []
    scores: list[ReportedScore] = []


class AttemptReports(Request, frozen=True, kw_only=True):
    """Outcomes of attempts."""

    outcomes: Annotated[list[AttemptReport], Meta(max_length=MAX_ITEMS)]


class ReportResult(msgspec.Struct, frozen=True):
    """Result of one reported outcome."""

    rollout_id: str
    fence: int
    status: RolloutStatus | None
    """The rollout's new status. Null: refused, because the attempt had ended or is unknown."""


class ReportResults(msgspec.Struct, frozen=True):
    """Results of the reported outcomes, in their order."""

    results: list[ReportResult]


@group.route(
    "POST",
    "/v1/rollouts/finish",
    RUNNER,
    agents=of_rollouts(
        lambda arguments: [outcome.rollout_id for outcome in arguments["body"].outcomes]
    ),
)
async def finish_rollouts(server: Services, body: AttemptReports) -> ReportResults:
    """Report outcomes of attempts, with their spans and the agent's own scores.

    A late report of an expired attempt is refused; a repeated report is accepted.
    """
    outcomes = [_outcome(number, report) for number, report in enumerate(body.outcomes)]
    answers = await server.dispatcher.finish(outcomes) if outcomes else {}
    return ReportResults(
        [ReportResult(o.rollout_id, o.fence, answers[o.rollout_id, o.fence]) for o in outcomes]
    )


def _outcome(number: int, report: AttemptReport) -> Outcome:
    if report.status not in REPORTABLE:
        raise HttpProblem(
            422,
            f"An attempt cannot end as {report.status!r}, only as one of {sorted(REPORTABLE)}.",
            field=f"outcomes[{number}].status",
        )
    return Outcome(
        rollout_id=report.rollout_id,
        fence=report.fence,
        status=report.status,
        started_at=report.started_at,
        ended_at=report.ended_at,
        duration_s=report.duration_s,
        output=report.output,
        error=report.error,
        cause=report.cause,
        cost_usd=report.cost_usd,
        spans=tuple(
            checked_span(span, f"outcomes[{number}].spans[{at}]")
            for at, span in enumerate(report.spans)
        ),
        scores=tuple(Score(**msgspec.structs.asdict(score)) for score in report.scores),
    )


def checked_span(span: Span, where: str) -> Span:
    """Check that a span's times fit the database, and that its cost is valid.

    Raises:
        HttpProblem: One of them does not (422).
    """
    moments = (span.start_ns, span.end_ns, *(event.time_ns for event in span.events))
    if not all(0 <= moment < 2**63 for moment in moments):
        raise HttpProblem(
            422,
            "Times must be nanoseconds since 1970 that fit in 63 bits.",
            field=f"{where}.start_ns",
        )
    if claims_no_cost(span.attributes):
        raise HttpProblem(
            422,
            f"{COST} is not a number of dollars from 0 to {MAX_USD:,.0f}.",
            field=f"{where}.attributes[{COST!r}]",
        )
    return span


class AttemptPairs(Request, frozen=True, kw_only=True):
    """The attempts that the request is about."""

    attempts: Pairs


class ReleasedAttempts(msgspec.Struct, frozen=True):
    """Attempts that were released; the others had ended."""

    released: list[PairOut]


@group.route("POST", "/v1/rollouts/release", RUNNER, agents=BY_ATTEMPTS)
async def release_rollouts(server: Services, body: AttemptPairs) -> ReleasedAttempts:
    """Release attempts: their rollouts are queued again, and no failure is counted."""
    released = await server.dispatcher.release(body.attempts)
    return ReleasedAttempts([list(pair) for pair in sorted(released)])


class RolloutsCancelled(msgspec.Struct, frozen=True):
    """Number of cancelled rollouts; the others had ended, or are unknown."""

    cancelled: int


@group.route("POST", "/v1/rollouts/cancel", DEVELOP, audited=True, agents=BY_IDS)
async def cancel_rollouts(server: Services, body: RolloutIds) -> RolloutsCancelled:
    """Cancel rollouts that are queued or running.

    A runner is notified by its next heartbeat.
    """
    return RolloutsCancelled(await server.dispatcher.cancel(body.ids))


@group.route("GET", "/v1/rollouts/{id}", READ_BY_RUNNERS, agents=BY_ID)
async def get_rollout(server: Services, id: str) -> Rollout:
    """Get a rollout."""
    return await _one(server, id)


class AttemptList(msgspec.Struct, frozen=True):
    """Attempts at a rollout, oldest first."""

    attempts: list[Attempt]


@group.route("GET", "/v1/rollouts/{id}/attempts", READ, agents=BY_ID)
async def list_attempts(server: Services, id: str) -> AttemptList:
    """List the attempts at a rollout."""
    await _one(server, id)
    return AttemptList(await server.in_thread(server.store.rollouts.attempts, id))


class SpanFilter(Request, frozen=True, kw_only=True):
    """Filter for spans."""

    fence: Fence | None = None
    """Only spans of this attempt."""


class SpanList(msgspec.Struct, frozen=True):
    """Spans in the order they started."""

    spans: list[Span]


@group.route("GET", "/v1/rollouts/{id}/spans", READ, agents=BY_ID)
async def list_spans_of_rollout(server: Services, id: str, query: SpanFilter) -> SpanList:
    """List the spans of a rollout."""
    await _one(server, id)
    return SpanList(await server.in_thread(server.store.spans.of, id, query.fence))


class ScoreList(msgspec.Struct, frozen=True):
    """Scores in the order they were first given."""

    scores: list[Score]


@group.route("GET", "/v1/rollouts/{id}/scores", READ, agents=BY_ID)
async def list_scores_of_rollout(server: Services, id: str) -> ScoreList:
    """List the scores of a rollout."""
    await _one(server, id)
    return ScoreList((await server.in_thread(server.store.scores.of, [id]))[id])


async def _one(server: Services, id: str) -> Rollout:
    rollouts = await server.in_thread(server.store.rollouts.get, [id])
    if id not in rollouts:
        raise HttpProblem(404, f"There is no rollout {id!r}.", field="id")
    return rollouts[id]
