"""Without a recording: leads model calls to some hosts to a relay."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import urlsplit

from . import clients
from .journal import harmless, quiet
from .patches import Patcher
from .shapes import is_model_request, place_of


def begin(relay: str, hosts: str) -> None:
    """Lead this process's calls from now on.

    Args:
        relay: URL of the relay; a call's own URL goes below it.
        hosts: The hosts whose model calls are led, with commas between.
    """
    with quiet():
        sys.meta_path.insert(0, Patcher(lambda _: False, lambda _: None))
        clients.watch(Redirect(relay, hosts.split(",")))


class Redirect(clients.LedClients):
    """The model calls to some hosts.

    Args:
        relay: As in `begin`.
        hosts: Each with its port where that is not the scheme's usual one.
    """

    def __init__(self, relay: str, hosts: list[str]) -> None:
        super().__init__(relay)
        self._hosts = set(hosts)

    @harmless()
    def redirected(self, client: str, method: str, url: str, body: Any) -> tuple[str, str] | None:
        """The relay's URL for such a call, which has no need of a name."""
        if method.upper() != "POST" or place_of(url) not in self._hosts:
            return None
        if not is_model_request(urlsplit(url).path, clients.decoded(body)):
            return None
        return clients.below(self._relay, url), ""
