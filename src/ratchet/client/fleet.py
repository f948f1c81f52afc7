"""Fleet of a server: the ends of rollouts that run elsewhere, its runners, and its queues."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import msgspec

from ratchet.client.call import RemoteRepository, Steps, TransportT, endpoint, get, post
from ratchet.types import EndedRollouts, FleetRunner


class _Runners(msgspec.Struct, frozen=True):
    runners: builtins.list[FleetRunner]


class _Queues(msgspec.Struct, frozen=True):
    queues: builtins.list[str]


class Fleet(RemoteRepository[TransportT]):
    """Runners and queues of a server, and the ends of rollouts that run there."""

    @endpoint
    def wait(self, ids: Sequence[str], *, wait_s: float = 0.0) -> Steps[EndedRollouts]:
        """Wait until one of several rollouts has ended.

        Args:
            ids: The rollouts, 5,000 at most.
            wait_s: Seconds that the server waits when none has ended, 60 at most.

        Returns:
            Those that have ended: not all, when they are many.
        """
        body = {"ids": list(ids), "wait_s": wait_s}
        answer = yield post("rollouts", "wait", body=body, waits_s=wait_s)
        return answer.read(EndedRollouts)

    @endpoint
    def runners(self) -> Steps[builtins.list[FleetRunner]]:
        """The runners that claim from the server, most recently seen first."""
        answer = yield get("runners")
        return answer.read(_Runners).runners

    @endpoint
    def queues(self, prefix: str = "", limit: int = 100) -> Steps[builtins.list[str]]:
        """Names of the queues that have queued rollouts, in order.

        Args:
            prefix: Only those whose names begin so.
            limit: Maximum number of names, up to 1,000.
        """
        answer = yield get("queues", prefix=prefix, limit=limit)
        return answer.read(_Queues).queues
