"""Releases: promoted candidates and their state."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.autopilot.project import Project
from ratchet.autopilot.pull_requests import refresh_release, revert_release
from ratchet.server.agent_limits import of_answer
from ratchet.server.api.fields import Limit, Request
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import ADMIN, READ, RouteGroup
from ratchet.server.services import Services
from ratchet.ship import deactivate
from ratchet.types import Release

group = RouteGroup("releases")


class ReleaseQuery(Request, frozen=True, kw_only=True):
    """Maximum number of releases to return."""

    limit: Limit = 100


class ReleaseList(msgspec.Struct, frozen=True):
    """Releases, newest first."""

    releases: list[Release]


@group.route("GET", "/v1/releases", READ)
async def list_releases(server: Services, query: ReleaseQuery) -> ReleaseList:
    """List the releases."""
    return ReleaseList(await server.in_thread(server.store.releases.list, query.limit))


@group.route("GET", "/v1/releases/{id}", READ, agents=of_answer(lambda answer: [answer.agent]))
async def get_release(server: Services, id: str) -> Release:
    """Get a release."""
    return await server.in_thread(_found, server, id)


class NewRollback(Request, frozen=True, kw_only=True):
    """Why a release is rolled back."""

    reason: Annotated[str, Meta(min_length=1, max_length=2_000)]


@group.route("POST", "/v1/releases/{id}/rollback", ADMIN, audited=True)
async def roll_back(server: Services, id: str, body: NewRollback) -> Release:
    """Roll a release back.

    At run time, what was active before is active again. In a repository, as `ratchet rollback`
    does: only by a server that was started in the project.
    """
    release = await server.in_thread(_found, server, id)
    if release.state == "rolled_back":
        return release
    undone = await server.in_thread(_rolled_back, server, release, body.reason)
    server.activity_log.event("releases.changed", {"id": undone.id, "state": undone.state})
    return undone


def _rolled_back(server: Services, release: Release, reason: str) -> Release:
    if release.agent:
        undone = deactivate(server.store, release, time.time(), reason)
        server.store.releases.put(undone)
        return undone
    if server.project is None:
        raise HttpProblem(
            409,
            "This release is in a repository, but the server was not started in its project.",
            hint=f"Run in the project: ratchet rollback {release.id[:12]}",
        )
    project = Project.find(server.project)
    current = refresh_release(project, server.store, release)
    return revert_release(project, server.store, current, reason)


def _found(server: Services, id: str) -> Release:
    release = server.store.releases.get(id)
    if release is None:
        raise HttpProblem(404, f"There is no release {id[:200]!r}.", field="id")
    return release
