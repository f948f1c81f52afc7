"""The typed client of a server: the store's repositories, over HTTP."""

from ratchet.client.address import KEY_VARIABLE, URL_VARIABLE, Key, is_server
from ratchet.client.agents import Active
from ratchet.client.awaiting import AsyncClient
from ratchet.client.blocking import Client
from ratchet.client.events import Event

__all__ = [
    "KEY_VARIABLE",
    "URL_VARIABLE",
    "Active",
    "AsyncClient",
    "Client",
    "Event",
    "Key",
    "is_server",
]
