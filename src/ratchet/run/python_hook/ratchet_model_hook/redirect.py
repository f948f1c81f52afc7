"""Sends model calls to some hosts by way of a relay, with their address in the path."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import urlsplit

from . import clients
from .patches import Patcher
from .quiet import quiet
from .shapes import is_model_request


def begin(relay: str, hosts: str) -> None:
    """Lead this process's calls from now on.

    Args:
        relay: URL of the relay; the scheme and the rest of a call's own URL go below it.
        hosts: The hosts whose model calls are led, with commas between.
    """
    with quiet():
        sys.meta_path.insert(0, Patcher())
        clients.watch(Redirect(relay, hosts.split(",")))


class Redirect:
    """What the clients of this process send, led to a relay.

    Args:
        relay: As in `begin`.
        hosts: Each with its port where that is not the scheme's usual one.
    """

    def __init__(self, relay: str, hosts: list[str]) -> None:
        self._relay = relay
        self._hosts = set(hosts)
        place = urlsplit(relay)
        self.host, self.port = place.hostname, place.port

    def redirected(self, client: str, method: str, url: str, body: Any) -> tuple[str, str] | None:
        """The relay's URL for a model call to one of the hosts, and no name of it."""
        place = urlsplit(url)
        if method != "POST" or clients.place_of(url) not in self._hosts:
            return None
        if not is_model_request(place.path, clients.decoded(body)):
            return None
        return clients.below(self._relay, url), ""  # it has no need of a name
