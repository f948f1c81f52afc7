"""Live traffic of a server's agents: what they run, and how a canary splits it."""

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
from ratchet.types import LiveVersions, TrafficSplit


class _Splits(msgspec.Struct, frozen=True):
    splits: builtins.list[TrafficSplit]


class Traffic(RemoteRepository[TransportT]):
    """Splits of live traffic by agent; an agent's newest split is in effect."""

    @endpoint
    def put(self, split: TrafficSplit) -> Steps[None]:
        """Split an agent's traffic from now on; the server sets `started_at`.

        Raises:
            InputError: The share lies outside [0, 1], or the candidate is unknown or changes code.
        """
        body = {
            "experiment_id": split.experiment_id,
            "candidate_id": split.candidate_id,
            "enrolled": split.enrolled,
            "reason": split.reason,
        }
        answer = yield ApiRequest(
            method="PUT", path=path("agents", split.agent, "traffic"), body=json_of(body)
        )
        answer.read(TrafficSplit)

    @endpoint
    def versions(self, agent: str, tag: str = "") -> Steps[LiveVersions | None]:
        """What a live agent runs; None if the caller already has it, by its tag."""
        request = get("agents", agent, "traffic")
        if tag:
            request = msgspec.structs.replace(request, headers={"if-none-match": f'"{tag}"'})
        answer = yield request
        return None if answer.status == 304 else answer.read(LiveVersions)

    @endpoint
    def history(self, agent: str) -> Steps[builtins.list[TrafficSplit]]:
        """Splits of an agent, newest first."""
        answer = yield get("agents", agent, "traffic", "history")
        return answer.read(_Splits).splits
