"""Cycles of the autopilots of a server's agents, and people's commands to them."""

from __future__ import annotations

import builtins

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
from ratchet.types import Cycle, CycleTransition, NotFound, OperatorCommand


class _Cycles(msgspec.Struct, frozen=True):
    cycles: builtins.list[Cycle]


class _Detail(msgspec.Struct, frozen=True):
    cycle: Cycle
    transitions: builtins.list[CycleTransition]


class Cycles(RemoteRepository[TransportT]):
    """Cycles by id. An agent has at most one that has not ended."""

    @endpoint
    def get(self, id: str) -> Steps[Cycle | None]:
        """The cycle with that id, or None."""
        try:
            answer = yield get("cycles", id)
        except NotFound:
            return None
        return answer.read(_Detail).cycle

    @endpoint
    def list(self, agent: str | None = None, limit: int = 100) -> Steps[builtins.list[Cycle]]:
        """Cycles, newest first."""
        answer = yield get("cycles", agent=agent, limit=limit)
        return answer.read(_Cycles).cycles

    @endpoint
    def transitions(self, id: str) -> Steps[builtins.list[CycleTransition]]:
        """A cycle's moves, oldest first; none for an unknown cycle."""
        try:
            answer = yield get("cycles", id)
        except NotFound:
            return []
        return answer.read(_Detail).transitions


class OperatorCommands(RemoteRepository[TransportT]):
    """People's commands to the autopilot."""

    @endpoint
    def add(self, command: OperatorCommand) -> Steps[None]:
        """Give it a command; the server sets `at`.

        Raises:
            InputError: The agent has no such cycle to approve, deny or stop.
        """
        body = msgspec.structs.asdict(command)
        del body["agent"], body["at"]
        answer = yield ApiRequest(
            method="POST", path=path("agents", command.agent, "autopilot"), body=json_of(body)
        )
        answer.read(OperatorCommand)
