"""Problems: what goes wrong with agents in live traffic, and what people decide about it."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from msgspec import Meta

from ratchet.autopilot.problem_answers import (
    ProblemDetail,
    ProblemList,
    problem_detail,
    problem_list,
)
from ratchet.server.agent_limits import BY_QUERY, of_answer
from ratchet.server.api.fields import Name, Request, ShortText
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import ADMIN, READ, RouteGroup
from ratchet.server.services import Services
from ratchet.types import Problem, ProblemState

group = RouteGroup("problems")


class ProblemQuery(Request, frozen=True, kw_only=True):
    """Filter for problems."""

    agent: Name | None = None
    """Only problems of this agent."""
    state: ProblemState | None = None
    """Only problems in this state."""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 1_000
    """Maximum number of problems, worst first."""


class NewState(Request, frozen=True, kw_only=True):
    """What a person decides about a problem."""

    state: Literal["ignored", "open", "fixed"]
    reason: ShortText = ""
    """The reason; required for `ignored`."""
    by: Annotated[str, Meta(min_length=1, max_length=200)]


@group.route("GET", "/v1/problems", READ, agents=BY_QUERY)
async def list_problems(server: Services, query: ProblemQuery) -> ProblemList:
    """List the problems of agents in live traffic, worst first."""
    return await server.in_thread(
        problem_list,
        server.store,
        now=time.time(),
        agent=query.agent,
        states=None if query.state is None else {query.state},
        limit=query.limit,
    )


@group.route(
    "GET", "/v1/problems/{id}", READ, agents=of_answer(lambda answer: [answer.report.problem.agent])
)
async def get_problem(server: Services, id: str) -> ProblemDetail:
    """Get a problem, by its id or the start of it, with its traces and the history of its state."""
    problem = await _found(server, id)
    return await server.in_thread(problem_detail, server.store, problem, now=time.time())


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
