"""Agents of a server: their settings and their active candidates."""

from __future__ import annotations

import builtins
import threading

import msgspec

from ratchet.client.call import (
    ApiRequest,
    RemoteRepository,
    Steps,
    TransportT,
    endpoint,
    get,
    json_of,
    path,
)
from ratchet.types import Activation, AgentSettings, Resource

MAX_CACHED_AGENTS = 256
"""Maximum number of agents whose last response is cached."""


class Active(msgspec.Struct, frozen=True, kw_only=True):
    """The candidate that an agent uses outside rollouts."""

    agent: str
    candidate_id: str
    """Empty: the agent's own source, unchanged."""
    activated_at: float
    """Unix seconds; 0 if nothing was ever activated."""
    reason: str = ""
    versions: dict[str, str] = {}
    """Version by resource name."""
    resources: dict[str, Resource] = {}


class _Agents(msgspec.Struct, frozen=True):
    agents: builtins.list[AgentSettings]


class _History(msgspec.Struct, frozen=True):
    activations: builtins.list[Activation]


class Agents(RemoteRepository[TransportT]):
    """Settings and activations by agent. An agent without settings has the defaults."""

    def __init__(self, transport: TransportT) -> None:
        super().__init__(transport)
        self._lock = threading.Lock()
        self._last: dict[str, tuple[str, Active]] = {}
        """ETag and content of the last response, by agent."""

    @endpoint
    def active(self, name: str) -> Steps[Active]:
        """The agent's active candidate; the server sends it again only when it has changed."""
        with self._lock:
            cached = self._last.get(name)
        request = get("agents", name, "active")
        if cached is not None:
            request = msgspec.structs.replace(request, headers={"if-none-match": cached[0]})
        answer = yield request
        if answer.status == 304 and cached is not None:
            return cached[1]
        active = answer.read(Active)
        tag = answer.headers.get("etag", "")
        if tag.isascii() and tag.isprintable() and tag:
            with self._lock:
                if len(self._last) >= MAX_CACHED_AGENTS:
                    self._last.clear()
                self._last[name] = tag, active
        return active

    @endpoint
    def activate(self, name: str, candidate_id: str, reason: str = "") -> Steps[Activation]:
        """Activate a candidate for an agent.

        Args:
            name: The agent.
            candidate_id: A published candidate; empty restores the agent's own source.
            reason: A note for the history.

        Raises:
            InputError: There is no such candidate.
        """
        body = {"candidate_id": candidate_id, "reason": reason}
        answer = yield _put("agents", name, "active", body=body)
        return answer.read(Activation)

    @endpoint
    def history(self, name: str) -> Steps[builtins.list[Activation]]:
        """Activations of an agent, newest first."""
        answer = yield get("agents", name, "history")
        return answer.read(_History).activations

    @endpoint
    def get(self, name: str) -> Steps[AgentSettings]:
        """Settings of an agent."""
        answer = yield get("agents", name)
        return answer.read(AgentSettings)

    @endpoint
    def put(self, settings: AgentSettings, now: float | None = None) -> Steps[None]:
        """Change the settings of an agent."""
        body = {"substitute": settings.substitute, "mirror": settings.mirror}
        answer = yield _put("agents", settings.name, body=body)
        answer.read(AgentSettings)

    @endpoint
    def list(self) -> Steps[builtins.list[AgentSettings]]:
        """All agents that have settings or were activated, sorted by name."""
        answer = yield get("agents")
        return answer.read(_Agents).agents


def _put(*parts: str, body: object) -> ApiRequest:
    return ApiRequest(method="PUT", path=path(*parts), body=json_of(body))
