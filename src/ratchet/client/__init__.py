"""The typed client of a server: the store's repositories, over HTTP."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ratchet.client.address import KEY_VARIABLE, URL_VARIABLE, ClientKey, is_server

if TYPE_CHECKING:
    from ratchet.client.agents import Active
    from ratchet.client.async_client import AsyncClient
    from ratchet.client.events import ServerEvent
    from ratchet.client.sync_client import Client

_LATER = {
    "Active": "agents",
    "AsyncClient": "async_client",
    "Client": "sync_client",
    "ServerEvent": "events",
}
"""Modules by name: each is imported when it is first named."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"ratchet.client.{_LATER[name]}"), name)
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
