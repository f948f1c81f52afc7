"""Cycles of the autopilot: what it does, and the commands that people give it."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.autopilot.cycle.stage_calls import StageCall, stage_calls
from ratchet.server.agent_limits import BY_NAME, BY_QUERY, of_answer
from ratchet.server.api.agents import checked_name
from ratchet.server.api.fields import Limit, Name, Request, ShortText, Version
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import ADMIN, READ, RouteGroup
from ratchet.server.services import Services
from ratchet.store import Store
from ratchet.types import Cycle, CycleTransition, OperatorCommand, OperatorVerb

group = RouteGroup("cycles")


class CycleQuery(Request, frozen=True, kw_only=True):
    """Filter for cycles."""

    agent: Name | None = None
    """Only cycles of this agent."""
    limit: Limit = 100


class CycleList(msgspec.Struct, frozen=True):
    """Cycles, newest first, without their stages' measurements."""

    cycles: list[Cycle]


class CycleDetail(msgspec.Struct, frozen=True):
    """A cycle with its moves, oldest first."""

    cycle: Cycle
    transitions: list[CycleTransition]
    told: list[OperatorCommand]
    """Commands that people gave the autopilot for it, oldest first."""
    running: bool
    """Whether a process runs the agent's autopilot, which carries out people's commands."""


class NewCommand(Request, frozen=True, kw_only=True):
    """A command that a person gives the autopilot."""

    verb: OperatorVerb
    by: Annotated[str, Meta(min_length=1, max_length=200)]
    cycle_id: Version = ""
    """The cycle that is approved, denied or stopped."""
    candidate_id: Version = ""
    """The candidate that is approved or denied."""
    reason: ShortText = ""


@group.route("GET", "/v1/cycles", READ, agents=BY_QUERY)
async def list_cycles(server: Services, query: CycleQuery) -> CycleList:
    """List the cycles."""
    cycles = await server.in_thread(server.store.cycles.list, query.agent, query.limit)
    return CycleList([_shown(cycle) for cycle in cycles])


@group.route("GET", "/v1/cycles/{id}", READ, agents=of_answer(lambda answer: [answer.cycle.agent]))
async def get_cycle(server: Services, id: str) -> CycleDetail:
    """Get a cycle with its moves."""
    cycle = await _found(server, id)
    return await server.in_thread(_detail, server.store, _shown(cycle), time.time())


def _detail(store: Store, cycle: Cycle, now: float) -> CycleDetail:
    lease = store.leases.get(f"autopilot/{cycle.agent}")
    return CycleDetail(
        cycle,
        store.cycles.transitions(cycle.id),
        store.operator_commands.about(cycle.id),
        lease is not None and lease.expires_at > now,
    )


class StageCalls(msgspec.Struct, frozen=True):
    """Live calls that a cycle's stages used, in the order of the stages and of the calls."""

    calls: list[StageCall]


@group.route("GET", "/v1/cycles/{id}/calls", READ)
async def list_stage_calls(server: Services, id: str) -> StageCalls:
    """List the live calls that a cycle's stages used."""
    await _found(server, id)
    return StageCalls(await server.in_thread(stage_calls, server.store, id))


@group.route("POST", "/v1/agents/{name}/autopilot", ADMIN, audited=True, agents=BY_NAME)
async def tell_autopilot(server: Services, name: str, body: NewCommand) -> OperatorCommand:
    """Pause or resume an agent's autopilot; approve, deny or stop its cycle."""
    if body.verb in ("approve", "deny", "stop"):
        cycle = await server.in_thread(server.store.cycles.get, body.cycle_id)
        if cycle is None or cycle.agent != name:
            raise HttpProblem(
                422,
                f"{name[:100]} has no cycle {body.cycle_id!r} to {body.verb}.",
                field="cycle_id",
            )
    command = OperatorCommand(
        agent=checked_name(name), at=time.time(), **msgspec.structs.asdict(body)
    )
    await server.in_thread(server.store.operator_commands.add, command)
    return command


async def _found(server: Services, id: str) -> Cycle:
    cycle = await server.in_thread(server.store.cycles.get, id)
    if cycle is None:
        raise HttpProblem(404, f"There is no cycle {id[:200]!r}.", field="id")
    return cycle


def _shown(cycle: Cycle) -> Cycle:
    """Without the state of its tests, which names the users of a canary."""
    return msgspec.structs.replace(cycle, progress={})
