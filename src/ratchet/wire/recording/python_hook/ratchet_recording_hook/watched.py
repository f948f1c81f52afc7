"""The requests of a recorded process: model calls are written with their stacks.

A model call is known by its shape. Of what else is sent, method, host and path are noted.
"""

from __future__ import annotations

import itertools
import os
from typing import Any
from urllib.parse import urlsplit

from ratchet_model_hook.clients import below, decoded
from ratchet_model_hook.quiet import quiet
from ratchet_model_hook.shapes import about_models, is_model_request

from .journal import Journal
from .stacks import Stacks


class Watched:
    """What the clients of this process send.

    Args:
        stacks: The repository's frames.
        journal: Where requests are written.
        relay: URL of the relay.
        simulated: Whether questions about models go to the relay too.
    """

    def __init__(self, stacks: Stacks, journal: Journal, relay: str, simulated: bool) -> None:
        self._stacks = stacks
        self._journal = journal
        self._relay = relay
        self._simulated = simulated
        self._numbers = itertools.count()
        self._hosts: set[str] = set()
        """Hosts of models that were called."""
        place = urlsplit(relay)
        self.host, self.port = place.hostname, place.port

    def redirected(self, client: str, method: str, url: str, body: Any) -> tuple[str, str] | None:
        """The relay's URL for a model call and the call's name; None for another request."""
        if url.startswith(self._relay):
            # A base URL that another program handed on: known already by its address.
            return url, self._written(client, method, url, body)
        place = urlsplit(url)
        asked = decoded(body)
        if place.scheme not in ("http", "https") or not place.netloc:
            return None
        model = method == "POST" and is_model_request(place.path, asked)
        if model:
            self._hosts.add(place.netloc)
        of_model = self._simulated and (place.netloc in self._hosts or about_models(place.path))
        if not model and not of_model:
            port = place.port or (443 if place.scheme == "https" else 80)
            self._journal.write(
                "request", method=method, host=place.hostname or "", port=port, path=place.path
            )
            return None
        return below(f"{self._relay}/to", url), self._written(client, method, url, body)

    def _written(self, client: str, method: str, url: str, body: Any) -> str:
        with quiet():
            name = f"{os.getpid()}-{next(self._numbers)}"
            url = url.partition("?")[0]
            stack = self._stacks.names()
            self._journal.write("call", name=name, client=client, url=url, stack=stack)
        return name
