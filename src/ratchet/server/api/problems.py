"""Problems: what goes wrong with agents in live traffic, and what people decide about it."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ratchet.autopilot.problem_reports import DAYS, reports
from ratchet.autopilot.problem_scan import FAILURE_READER
from ratchet.server.agent_limits import BY_QUERY, of_answer
from ratchet.server.api.fields import Name, Request, ShortText
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import ADMIN, READ, RouteGroup
from ratchet.server.services import Services
from ratchet.types import (
    Occurrence,
    Problem,
    ProblemReport,
    ProblemState,
    ProblemTransition,
)
from ratchet.types.cycle import DAY_S

group = RouteGroup("problems")


class ProblemQuery(Request, frozen=True, kw_only=True):
    """Filter for problems."""

    agent: Name | None = None
    """Only problems of this agent."""
    state: ProblemState | None = None
    """Only problems in this state."""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 1_000
    """Maximum number of problems, worst first."""


class ProblemList(msgspec.Struct, frozen=True):
    """Problems, worst first by share of traffic × loss."""

    problems: list[ProblemReport]
    total: int
    """Number of all problems, including those beyond the limit."""
    traces: int
    """Number of traces in the window."""
    in_no_problem: int
    """Number of failing traces in the window that are in no problem yet."""
    days: int
    """Length of the window."""
    scanned_at: float
    """When traces were last scanned, in Unix seconds; 0 for never."""


class ProblemDetail(msgspec.Struct, frozen=True):
    """A problem with its traces and its history."""

    report: ProblemReport
    occurrences: list[Occurrence]
    """Newest first, at most a hundred, each trace once."""
    transitions: list[ProblemTransition]
    """Changes of its state, oldest first."""
    frozen_tasks: int | None
    """Number of tasks in its frozen set; None if it has no set."""


class NewState(Request, frozen=True, kw_only=True):
    """What a person decides about a problem."""

    state: Literal["ignored", "open", "fixed"]
    reason: ShortText = ""
    """The reason; required for `ignored`."""
    by: Annotated[str, Meta(min_length=1, max_length=200)]


@group.route("GET", "/v1/problems", READ, agents=BY_QUERY)
async def list_problems(server: Services, query: ProblemQuery) -> ProblemList:
    """List the problems of agents in live traffic, worst first."""
    now, problems = time.time(), server.store.problems
    found, traces = await server.in_thread(
        reports, server.store, now=now, agent=query.agent, state=query.state
    )
    loose = await server.in_thread(problems.in_no_problem, query.agent, now - DAYS * DAY_S)
    place = await server.in_thread(problems.place, FAILURE_READER)
    return ProblemList(found[: query.limit], len(found), traces, loose, DAYS, place.at)


@group.route(
    "GET", "/v1/problems/{id}", READ, agents=of_answer(lambda answer: [answer.report.problem.agent])
)
async def get_problem(server: Services, id: str) -> ProblemDetail:
    """Get a problem, by its id or the start of it, with its traces and the history of its state."""
    problem = await _found(server, id)
    listed, _ = await server.in_thread(
        reports, server.store, now=time.time(), agent=problem.agent, only=problem.id
    )
    occurrences = await server.in_thread(server.store.problems.occurrences, problem.id)
    transitions = await server.in_thread(server.store.problems.transitions, problem.id)
    frozen_tasks = None
    if problem.frozen_set:
        frozen_set = await server.in_thread(server.store.frozen_sets.get, problem.frozen_set)
        frozen_tasks = None if frozen_set is None else len(frozen_set.tasks)
    return ProblemDetail(listed[0], occurrences, transitions, frozen_tasks)


@group.route("POST", "/v1/problems/{id}/state", ADMIN, audited=True)
async def set_problem_state(server: Services, id: str, body: NewState) -> Problem:
    """Ignore a problem, reopen it, or mark it as fixed."""
    problem = await _found(server, id)
    if body.state == "ignored" and not body.reason.strip():
        raise HttpProblem(422, "Say why the problem is ignored.", field="reason")
    now = time.time()
    fields = {"fixed_at": now} if body.state == "fixed" else {}
    return await server.in_thread(
        server.store.problems.change,
        problem.id,
        body.state,
        reason=body.reason,
        now=now,
        by=body.by,
        **fields,
    )


async def _found(server: Services, id: str) -> Problem:
    matches = await server.in_thread(server.store.problems.find, id)
    if len(matches) > 1:
        raise HttpProblem(
            409,
            f"{len(matches)} problems have ids that begin with {id[:200]!r}.",
            hint="Give more characters of the id.",
            field="id",
        )
    if not matches:
        raise HttpProblem(404, f"There is no problem {id[:200]!r}.", field="id")
    return matches[0]
