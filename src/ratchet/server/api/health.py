"""Health checks, metrics and the OpenAPI description."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from ratchet._version import __version__
from ratchet.server.access import Caller
from ratchet.server.agent_limits import NO_AGENT
from ratchet.server.http_problems import HttpProblem
from ratchet.server.openapi import describe
from ratchet.server.routes import NO_SCOPES, READ_ONLY, RouteGroup, TextResponse
from ratchet.server.services import Services
from ratchet.types import StoreError

group = RouteGroup("health")

STORE_S = 2.0
"""Seconds within which the store must respond for the server to be ready."""


class Health(msgspec.Struct, frozen=True):
    """Health of the server."""

    status: str
    version: str
    store: str
    """Identifies the store; servers that share one name the same."""


@group.route("GET", "/healthz", NO_SCOPES, agents=NO_AGENT)
async def healthz(server: Services) -> Health:
    """Report whether the server is alive."""
    return Health("ok", __version__, server.store_id)


@group.route("GET", "/readyz", NO_SCOPES, agents=NO_AGENT)
async def readyz(server: Services, caller: Caller) -> Health:
    """Report whether the server is ready: it is not shutting down, and its store responds.

    Why the store does not respond is for callers with a key.
    """
    if server.closing.is_set():
        raise HttpProblem(503, "The server is shutting down.")
    try:
        await server.ping(STORE_S)
    except StoreError:
        if caller.scopes:
            raise
        raise HttpProblem(
            503, "The store does not respond.", headers={"retry-after": "1"}
        ) from None
    return Health("ready", __version__, server.store_id)


@group.route("GET", "/metrics", READ_ONLY, media_type="text/plain")
async def metrics(server: Services) -> TextResponse:
    """Get the server's metrics in Prometheus format."""
    media_type, content = server.metrics.render()
    return TextResponse(content, media_type)


@group.route("GET", "/openapi.json", NO_SCOPES, answers=dict[str, Any], agents=NO_AGENT)
async def openapi() -> TextResponse:
    """Get this description."""
    return TextResponse(_description(), "application/json")


@functools.cache
def _description() -> bytes:
    """The document, which is the same for as long as the server runs."""
    from ratchet.server.api import GROUPS

    return msgspec.json.encode(describe([route for group in GROUPS for route in group.routes]))
