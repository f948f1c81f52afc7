"""Releases: promoted candidates and their state."""

from __future__ import annotations

import msgspec

from ratchet.server.api.fields import Limit, Request
from ratchet.server.problems import Problem
from ratchet.server.routes import READ, RouteGroup
from ratchet.server.services import Services
from ratchet.types import Release

group = RouteGroup("releases")


class ReleaseQuery(Request, frozen=True, kw_only=True):
    """Size of the list."""

    limit: Limit = 100


class ReleaseList(msgspec.Struct, frozen=True):
    """Releases, newest first."""

    releases: list[Release]


@group.route("GET", "/v1/releases", READ)
async def list_releases(server: Services, query: ReleaseQuery) -> ReleaseList:
    """List the releases."""
    return ReleaseList(await server.in_thread(server.store.releases.list, query.limit))


@group.route("GET", "/v1/releases/{id}", READ)
async def get_release(server: Services, id: str) -> Release:
    """Get a release."""
    found = await server.in_thread(server.store.releases.get, id)
    if found is None:
        raise Problem(404, f"There is no release {id!r}.", field="id")
    return found
