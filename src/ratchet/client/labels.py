"""People's labels at a server."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import msgspec

from ratchet.client.call import (
    ApiRequest,
    RemoteRepository,
    Steps,
    TransportT,
    batches,
    endpoint,
    get,
    path,
    post,
)
from ratchet.types import Label


class _Labels(msgspec.Struct, frozen=True):
    labels: builtins.list[Label]


class _Stored(msgspec.Struct, frozen=True):
    stored: int


class _Removed(msgspec.Struct, frozen=True):
    removed: bool


class Labels(RemoteRepository[TransportT]):
    """Labels by id; a later label with the same id replaces the earlier."""

    @endpoint
    def add(self, items: Sequence[Label], now: float | None = None) -> Steps[None]:
        """Store labels.

        Raises:
            InputError: One is malformed; none of its batch is stored.
        """
        for _, part in batches(items):
            answer = yield post("labels", body={"labels": part})
            answer.read(_Stored)

    @endpoint
    def remove(self, id: str) -> Steps[bool]:
        """Delete a label; return whether there was one."""
        answer = yield ApiRequest(method="DELETE", path=path("labels", id))
        return answer.read(_Removed).removed

    @endpoint
    def list(
        self,
        *,
        criterion: str | None = None,
        rollout_id: str | None = None,
        trace_id: str | None = None,
    ) -> Steps[builtins.list[Label]]:
        """All labels, oldest first.

        Args:
            criterion: Only of this criterion; an empty string is the output as a whole.
            rollout_id: Only about this rollout.
            trace_id: Only about this trace.
        """
        answer = yield get("labels", criterion=criterion, rollout_id=rollout_id, trace_id=trace_id)
        return answer.read(_Labels).labels
