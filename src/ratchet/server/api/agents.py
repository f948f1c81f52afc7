"""Agents: their gateway settings and their active candidate."""

from __future__ import annotations

import re
import time
from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.bind.live_changes import check_live
from ratchet.server.agent_limits import BY_NAME
from ratchet.server.api import candidates
from ratchet.server.api.fields import Request, ShortText, Version
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import ADMIN, READ, Response, RouteGroup
from ratchet.server.services import Services
from ratchet.types import Activation, AgentSettings, InputError, Resource

group = RouteGroup("agents")

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


class AgentList(msgspec.Struct, frozen=True):
    """Agents that have settings or a history, sorted by name."""

    agents: list[AgentSettings]


@group.route("GET", "/v1/agents", READ)
async def list_agents(server: Services) -> AgentList:
    """List the agents."""
    return AgentList(await server.in_thread(server.store.agents.list))


@group.route("GET", "/v1/agents/{name}", READ, agents=BY_NAME)
async def get_agent(server: Services, name: str) -> AgentSettings:
    """Get an agent's settings; an agent without any has the defaults."""
    return await server.in_thread(server.store.agents.settings, checked_name(name))


class NewAgentSettings(Request, frozen=True, kw_only=True):
    """Settings of an agent."""

    substitute: bool
    """Whether the gateway replaces registered prompts with the candidate's or the release's."""
    mirror: Annotated[float, Meta(ge=0, le=1)] | msgspec.UnsetType | None = msgspec.UNSET
    """Share of live calls that may be repeated for a candidate; null leaves it to the agent. If
    omitted, it is unchanged."""


@group.route("PUT", "/v1/agents/{name}", ADMIN, audited=True, agents=BY_NAME)
async def put_agent(server: Services, name: str, body: NewAgentSettings) -> AgentSettings:
    """Change an agent's settings."""
    before = await server.in_thread(server.store.agents.settings, checked_name(name))
    mirror = before.mirror if isinstance(body.mirror, msgspec.UnsetType) else body.mirror
    settings = AgentSettings(name=name, substitute=body.substitute, mirror=mirror)
    await server.in_thread(server.store.agents.put, settings, time.time())
    server.activity_log.event("agents.changed", {"name": name})
    return settings


class ActiveCandidateView(msgspec.Struct, frozen=True, kw_only=True):
    """The candidate that an agent uses outside rollouts."""

    agent: str
    candidate_id: str
    """Empty: the agent's own source, unchanged."""
    activated_at: float
    """Unix seconds; 0 when nothing was ever activated."""
    reason: str
    versions: dict[str, str]
    resources: dict[str, Resource]


@group.route("GET", "/v1/agents/{name}/active", READ, answers=ActiveCandidateView, agents=BY_NAME)
async def get_active(server: Services, name: str, headers: dict[str, str]) -> Response:
    """Get an agent's active candidate with its resources.

    Send the ETag of the last response as If-None-Match; when nothing has changed, the response is
    304 without a body.
    """
    activation = await server.in_thread(server.store.agents.active, checked_name(name))
    current = activation or Activation(agent=name, candidate_id="", activated_at=0.0)
    tag = f'"{current.candidate_id or "source"}"'
    validators = {"etag": tag, "cache-control": "no-cache"}
    etags = [
        part.strip().removeprefix("W/") for part in headers.get("if-none-match", "").split(",")
    ]
    if tag in etags or "*" in etags:
        return Response(status=304, headers=validators)
    resources: dict[str, Resource] = {}
    versions: dict[str, str] = {}
    if current.candidate_id:
        candidate = await candidates.find(server, current.candidate_id)
        resources, versions = candidate.resources, candidate.versions()
    body = ActiveCandidateView(
        **msgspec.structs.asdict(current), versions=versions, resources=resources
    )
    return Response(body, headers=validators)


class NewActivation(Request, frozen=True, kw_only=True):
    """The candidate to make active."""

    candidate_id: Version
    """Empty restores the agent's own source."""
    reason: ShortText = ""


@group.route("PUT", "/v1/agents/{name}/active", ADMIN, audited=True, agents=BY_NAME)
async def put_active(server: Services, name: str, body: NewActivation) -> Activation:
    """Activate a candidate for an agent."""
    if body.candidate_id:
        await check_candidate(server, body.candidate_id)
    activation = Activation(
        agent=checked_name(name),
        candidate_id=body.candidate_id,
        activated_at=time.time(),
        reason=body.reason,
    )
    await server.in_thread(server.store.agents.activate, activation)
    server.activity_log.event("agents.activated", {"name": name, "candidate_id": body.candidate_id})
    return activation


class ActivationList(msgspec.Struct, frozen=True):
    """Activations, newest first."""

    activations: list[Activation]


@group.route("GET", "/v1/agents/{name}/history", READ, agents=BY_NAME)
async def list_activations(server: Services, name: str) -> ActivationList:
    """List an agent's activations."""
    return ActivationList(await server.in_thread(server.store.agents.history, checked_name(name)))


async def check_candidate(server: Services, candidate_id: str) -> None:
    """Check that live agents can run a candidate.

    Raises:
        HttpProblem: It is not stored, or changes code (422).
    """
    try:
        candidate = await candidates.find(server, candidate_id)
        origins = await server.in_thread(server.store.candidates.origins, candidate)
        check_live(candidate, origins)
    except HttpProblem as problem:
        raise HttpProblem(422, problem.detail, field="candidate_id") from None
    except InputError as error:
        raise HttpProblem(422, error.message, field="candidate_id", hint=error.hint) from None


def checked_name(name: str) -> str:
    """Validate the name of an agent.

    Raises:
        HttpProblem: It is not valid (422).
    """
    if not _NAME.fullmatch(name):
        raise HttpProblem(
            422,
            f"{name[:100]!r} is not an agent's name; use letters, digits, '.', '_' and '-'.",
            field="name",
        )
    return name
