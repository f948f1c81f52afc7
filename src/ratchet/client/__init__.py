"""Typed HTTP client of a Ratchet server, with the repositories of the store."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ratchet.client.address import KEY_VARIABLE, URL_VARIABLE, ClientKey, is_server

if TYPE_CHECKING:
    from ratchet.client.agents import Active
    from ratchet.client.async_client import AsyncClient
    from ratchet.client.events import ServerEvent
    from ratchet.client.sync_client import Client

_LAZY = {
    "Active": "agents",
    "AsyncClient": "async_client",
    "Client": "sync_client",
    "ServerEvent": "events",
}
"""Module of each name, imported on first use."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"ratchet.client.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'ratchet.client' has no attribute {name!r}")


__all__ = [
    "KEY_VARIABLE",
    "URL_VARIABLE",
    "Active",
    "AsyncClient",
    "Client",
    "ClientKey",
    "ServerEvent",
    "is_server",
]
