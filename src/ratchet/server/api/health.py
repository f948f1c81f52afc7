"""Health: whether the server lives, whether it can work, and its figures."""

from __future__ import annotations

from typing import Any

import msgspec

from ratchet._version import __version__
from ratchet.server.openapi import describe
from ratchet.server.problems import Problem
from ratchet.server.routes import NO_SCOPES, READ_ONLY, RouteGroup, TextResponse
from ratchet.server.services import Services

group = RouteGroup("health")


class Health(msgspec.Struct, frozen=True):
    """How the server is."""

    status: str
    version: str


@group.route("GET", "/healthz", NO_SCOPES)
async def healthz(server: Services) -> Health:
    """Tell whether the server lives."""
    return Health("ok", __version__)


@group.route("GET", "/readyz", NO_SCOPES)
async def readyz(server: Services) -> Health:
    """Tell whether the server can work: it is not about to end, and its store answers."""
    if server.closing.is_set():
        raise Problem(503, "The server is about to end.")
    await server.in_thread(server.store.ping)
    return Health("ready", __version__)


@group.route("GET", "/metrics", READ_ONLY, media_type="text/plain")
async def metrics(server: Services) -> TextResponse:
    """Read the server's figures, as Prometheus does."""
    media_type, content = server.metrics.render()
    return TextResponse(content, media_type)


@group.route("GET", "/openapi.json", NO_SCOPES)
async def openapi() -> dict[str, Any]:
    """Read this description."""
    from ratchet.server.api import GROUPS

    return describe([route for group in GROUPS for route in group.routes])
