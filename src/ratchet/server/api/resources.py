"""Resources: published under a name, fetched by version."""

from __future__ import annotations

from typing import Any

import msgspec

from ratchet.server.agent_limits import NO_AGENT
from ratchet.server.api.fields import Name, Request
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import DEVELOP, READ, READ_BY_RUNNERS, Response, RouteGroup
from ratchet.server.services import Services
from ratchet.types import InputError, Resource

group = RouteGroup("resources")

IMMUTABLE = "private, max-age=31536000, immutable"
"""A version never changes."""


class NewResource(Request, frozen=True, kw_only=True):
    """A resource, under its name in the agent's source."""

    name: Name
    resource: Resource


class PublishedResource(msgspec.Struct, frozen=True):
    """Version of the stored resource."""

    version: str
    """Content hash."""


@group.route("POST", "/v1/resources", DEVELOP, audited=True, agents=NO_AGENT)
async def publish_resource(server: Services, body: NewResource) -> PublishedResource:
    """Publish a resource. Repeating the call changes nothing."""
    version = await server.in_thread(server.store.resources.put, body.name, body.resource)
    return PublishedResource(version)


class ResourceQuery(Request, frozen=True, kw_only=True):
    """Filter for resources."""

    name: Name


class ResourceVersion(msgspec.Struct, frozen=True):
    """A version of a resource."""

    version: str
    created_at: float
    """Unix seconds."""


class ResourceVersionList(msgspec.Struct, frozen=True):
    """Versions of a resource, oldest first."""

    versions: list[ResourceVersion]


@group.route("GET", "/v1/resources", READ)
async def list_versions(server: Services, query: ResourceQuery) -> ResourceVersionList:
    """List the versions of a resource."""
    versions = await server.in_thread(server.store.resources.versions, query.name)
    return ResourceVersionList([ResourceVersion(*version) for version in versions])


@group.route("GET", "/v1/resources/{version}", READ_BY_RUNNERS, answers=Resource, agents=NO_AGENT)
async def get_resource(server: Services, version: str, headers: dict[str, str]) -> Response:
    """Get a resource by its version."""
    try:
        resource: Any = await server.in_thread(server.store.resources.get, version)
    except InputError as error:
        raise HttpProblem(404, error.message, field="version") from None
    return Response(resource, headers={"cache-control": IMMUTABLE, "etag": f'"{version}"'})
