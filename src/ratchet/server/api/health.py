"""Health: whether the server lives, whether it can work, and its figures."""

from __future__ import annotations

from typing import Any

import msgspec

from ratchet._version import __version__
from ratchet.server.openapi import describe
from ratchet.server.problems import Problem
from ratchet.server.routes import NOBODY, WATCH, Group, Text
from ratchet.server.services import Services

group = Group("health")


class Health(msgspec.Struct, frozen=True):
    """How the server is."""

    status: str
    version: str


@group.route("GET", "/healthz", NOBODY)
async def healthz(server: Services) -> Health:
    """Tell whether the server lives."""
    return Health("ok", __version__)


@group.route("GET", "/readyz", NOBODY)
async def readyz(server: Services) -> Health:
    """Tell whether the server can work: it is not about to end, and its store answers."""
    if server.closing.is_set():
        raise Problem(503, "The server is about to end.")
    await server.in_thread(server.store.ping)
    return Health("ready", __version__)


@group.route("GET", "/metrics", WATCH, media_type="text/plain")
async def metrics(server: Services) -> Text:
    """Read the server's figures, as Prometheus does."""
    media_type, content = server.metrics.render()
    return Text(content, media_type)


@group.route("GET", "/openapi.json", NOBODY)
async def openapi() -> dict[str, Any]:
    """Read this description."""
    from ratchet.server.api import GROUPS

    return describe([route for group in GROUPS for route in group.routes])
