"""Traffic of live agents: what they run, and how a canary splits it."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.server.agent_limits import BY_NAME
from ratchet.server.api.agents import check_candidate, checked_name
from ratchet.server.api.fields import Request, ShortText, Version
from ratchet.server.routes import ADMIN, LIVE, READ, Response, RouteGroup
from ratchet.server.services import Services
from ratchet.types import LiveVersions, TrafficSplit

group = RouteGroup("agents")


@group.route("GET", "/v1/agents/{name}/traffic", LIVE, answers=LiveVersions, agents=BY_NAME)
async def get_traffic(server: Services, name: str, headers: dict[str, str]) -> Response:
    """Get what a live agent runs: its release, and a canary's candidate, with their resources.

    Send the ETag of the last response as If-None-Match; when nothing has changed, the response is
    304 without a body.
    """
    etag = headers.get("if-none-match", "").strip().removeprefix("W/").strip('"')
    versions = await server.in_thread(server.store.traffic.versions, checked_name(name), etag)
    if versions is None:
        return Response(status=304, headers=_validators(etag))
    return Response(versions, headers=_validators(versions.tag))


class NewSplit(Request, frozen=True, kw_only=True):
    """A canary, or the end of one."""

    experiment_id: Version
    """The canary's candidate; empty ends the canary."""
    candidate_id: Version = ""
    enrolled: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Share of the units in the experiment; half of them get the candidate."""
    reason: ShortText = ""


@group.route("PUT", "/v1/agents/{name}/traffic", ADMIN, audited=True, agents=BY_NAME)
async def put_traffic(server: Services, name: str, body: NewSplit) -> TrafficSplit:
    """Split an agent's live traffic between its release and a candidate."""
    split = TrafficSplit(
        agent=checked_name(name),
        experiment_id=body.experiment_id,
        candidate_id=body.candidate_id,
        enrolled=body.enrolled,
        started_at=time.time(),
        reason=body.reason,
    )
    if body.experiment_id:
        await check_candidate(server, body.candidate_id)
    await server.in_thread(server.store.traffic.put, split)
    server.activity_log.event("agents.split", {"name": name, "enrolled": body.enrolled})
    return split


class SplitList(msgspec.Struct, frozen=True):
    """Splits, newest first."""

    splits: list[TrafficSplit]


@group.route("GET", "/v1/agents/{name}/traffic/history", READ, agents=BY_NAME)
async def list_splits(server: Services, name: str) -> SplitList:
    """List how an agent's live traffic was split."""
    return SplitList(await server.in_thread(server.store.traffic.history, checked_name(name)))


def _validators(tag: str) -> dict[str, str]:
    return {"etag": f'"{tag}"', "cache-control": "no-cache"}
