"""Agents at the server: their settings, and what they run with outside of rollouts."""

from __future__ import annotations

import builtins
import threading

import msgspec

from ratchet.client.call import (
    ApiRequest,
    Carrier,
    RemoteRepository,
    Steps,
    endpoint,
    get,
    json_of,
    path,
)
from ratchet.types import Activation, AgentSettings, Resource

KNOWN = 256
"""Agents whose last answer is remembered."""


class Active(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent runs with outside of rollouts."""

    agent: str
    candidate_id: str
    """Empty: the agent's own source, as it stands."""
    activated_at: float
    """Unix seconds; 0 when nothing was ever activated."""
    reason: str = ""
    versions: dict[str, str] = {}
    """Version by resource name."""
    resources: dict[str, Resource] = {}


class _Agents(msgspec.Struct, frozen=True):
    agents: builtins.list[AgentSettings]


class _History(msgspec.Struct, frozen=True):
    activations: builtins.list[Activation]


class Agents(RemoteRepository[Carrier]):
    """Settings and activations by agent. An agent that nobody configured has the defaults."""

    def __init__(self, carrier: Carrier) -> None:
        super().__init__(carrier)
        self._lock = threading.Lock()
        self._last: dict[str, tuple[str, Active]] = {}
        """ETag and content of the last answer, by agent."""

    @endpoint
    def active(self, name: str) -> Steps[Active]:
        """What the agent runs with now; it is sent again only when it has changed."""
        with self._lock:
            known = self._last.get(name)
        request = get("agents", name, "active")
        if known is not None:
            request = msgspec.structs.replace(request, headers={"if-none-match": known[0]})
        answer = yield request
        if answer.status == 304 and known is not None:
            return known[1]
        active = answer.read(Active)
        tag = answer.headers.get("etag", "")
        if tag.isascii() and tag.isprintable() and tag:
            with self._lock:
                if len(self._last) >= KNOWN:
                    self._last.clear()
                self._last[name] = tag, active
        return active

    @endpoint
    def activate(self, name: str, candidate_id: str, reason: str = "") -> Steps[Activation]:
        """Make a candidate the agent's active one.

        Args:
            name: The agent.
            candidate_id: A candidate of the server's; empty goes back to the agent's own source.
            reason: Why, for people.

        Raises:
            InputError: There is no such candidate.
        """
        body = {"candidate_id": candidate_id, "reason": reason}
        answer = yield _put("agents", name, "active", body=body)
        return answer.read(Activation)

    @endpoint
    def history(self, name: str) -> Steps[builtins.list[Activation]]:
        """Activations of an agent, the newest first."""
        answer = yield get("agents", name, "history")
        return answer.read(_History).activations

    @endpoint
    def get(self, name: str) -> Steps[AgentSettings]:
        """How the server treats the agent."""
        answer = yield get("agents", name)
        return answer.read(AgentSettings)

    @endpoint
    def put(self, settings: AgentSettings, now: float | None = None) -> Steps[None]:
        """Change how the server treats an agent."""
        answer = yield _put("agents", settings.name, body={"substitute": settings.substitute})
        answer.read(AgentSettings)

    @endpoint
    def list(self) -> Steps[builtins.list[AgentSettings]]:
        """Every agent that has settings or was activated, by name."""
        answer = yield get("agents")
        return answer.read(_Agents).agents


def _put(*parts: str, body: object) -> ApiRequest:
    return ApiRequest(method="PUT", path=path(*parts), body=json_of(body))
