"""Events: a server's stream of what changes, followed through reconnections, without any I/O."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import msgspec

from ratchet.client.call import ApiRequest, get
from ratchet.client.failures import RequestRefused, ServerUnreachable, error_of
from ratchet.client.retry_policy import AGAIN, FIRST_PAUSE_S, LONGEST_PAUSE_S

READ_S = 60.0
"""A stream that is silent for so long is dead: servers send a comment every quarter of that."""


class ServerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that changed."""

    id: str
    """Its number, to go on from."""
    kind: str
    """Noun and what happened to it, such as `rollouts.finished`."""
    at: float
    """Unix seconds."""
    body: dict[str, Any]
    """What it is about: ids, counts."""


class EventStream:
    """Where a follower of the stream stands, and how long it still tries.

    Args:
        after: Number of the last event known; None for what happens from now on.
        patience_s: How long it tries to connect again.
    """

    def __init__(
        self,
        after: str | None,
        patience_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._last = after
        self._patience_s = patience_s
        self._clock = clock
        self._jitter = jitter
        self._lost_at: float | None = None
        self._pause_s = FIRST_PAUSE_S

    def request(self) -> ApiRequest:
        """The request that (re)connects."""
        headers = {"accept": "text/event-stream"}
        if self._last is not None:
            headers["last-event-id"] = self._last
        return msgspec.structs.replace(get("events"), headers=headers)

    def connected(self) -> None:
        """The stream has begun."""
        self._lost_at = None
        self._pause_s = FIRST_PAUSE_S

    def heard(self, kind: str, data: str, id: str) -> ServerEvent | None:
        """The event in a message of the stream; None when it is none that can be read."""
        self.connected()
        if id and id.isascii() and id.isprintable():  # else no header can hold it
            self._last = id
        try:
            body = msgspec.json.decode(data, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError):
            return None
        at = body.pop("at", 0.0)
        return ServerEvent(
            id=id, kind=kind, at=float(at) if isinstance(at, (int, float)) else 0.0, body=body
        )

    def lost(self, failure: RequestRefused | ServerUnreachable) -> float:
        """The connection broke, or was refused.

        Returns:
            Seconds until the next try.

        Raises:
            RatchetError: It is in vain, or patience is at its end.
        """
        now = self._clock()
        self._lost_at = now if self._lost_at is None else self._lost_at
        pause_s = self._pause_s * (0.5 + 0.5 * self._jitter())
        if isinstance(failure, RequestRefused):
            hopeless = failure.status not in AGAIN
            pause_s += failure.retry_after_s or 0.0
        else:
            hopeless = failure.final
        if hopeless or now + pause_s > self._lost_at + self._patience_s:
            raise error_of(failure)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s
