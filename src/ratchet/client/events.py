"""Event stream of a server, with reconnection and without I/O."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import msgspec

from ratchet.client.call import ApiRequest, get
from ratchet.client.failures import RequestRefused, ServerUnreachable, error_of
from ratchet.client.retry_policy import FIRST_PAUSE_S, MAX_PAUSE_S, RETRIED_STATUSES

READ_S = 60.0
"""Read timeout of the stream in seconds; servers send a comment every quarter of that."""


class ServerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A change at the server."""

    id: str
    """Number of the event, to resume after it."""
    kind: str
    """Noun and verb, such as `rollouts.finished`."""
    at: float
    """Unix seconds."""
    body: dict[str, Any]
    """Details: ids, counts."""


class EventMessages:
    """Reads the messages of an event stream from its bytes.

    httpx has no reader of them; that of httpx2 asks for an idna that many agents pin lower.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[bytes, list[bytes]] = {}

    def feed(self, piece: bytes) -> list[tuple[str, str, str]]:
        """Kind, data and id of each message that the next bytes complete."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        messages: list[Any] = []
        for line in lines:
            line = line.removesuffix(b"\r")
            name, _, value = line.partition(b":")
            if name:  # a comment has none
                self._fields.setdefault(name, []).append(value.removeprefix(b" "))
            elif not line:
                fields, self._fields = self._fields, {}
                if data := fields.get(b"data"):
                    kind, id = (fields.get(field, [b""])[-1] for field in (b"event", b"id"))
                    message = (kind, b"\n".join(data), id)
                    messages.append(tuple(part.decode(errors="replace") for part in message))
        return messages


class EventStream:
    """Position in the stream of events, and its retry state.

    Args:
        after: Number of the last received event; None for new events only.
        patience_s: Seconds for which it tries to reconnect.
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
        """Reset the retries: the stream has begun."""
        self._lost_at = None
        self._pause_s = FIRST_PAUSE_S

    def received(self, kind: str, data: str, id: str) -> ServerEvent | None:
        """Decode a message of the stream; None if it is not an event."""
        self.connected()
        if id and id.isascii() and id.isprintable():  # else it cannot be sent in a header
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
        """Schedule a reconnection after the stream ended or was refused.

        Returns:
            Seconds to wait before the next attempt.

        Raises:
            RatchetError: The failure is permanent, or `patience_s` is over.
        """
        now = self._clock()
        self._lost_at = now if self._lost_at is None else self._lost_at
        pause_s = self._pause_s * (0.5 + 0.5 * self._jitter())
        if isinstance(failure, RequestRefused):
            permanent = failure.status not in RETRIED_STATUSES
            pause_s += failure.retry_after_s or 0.0
        else:
            permanent = failure.final
        if permanent or now + pause_s > self._lost_at + self._patience_s:
            raise error_of(failure)
        self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)
        return pause_s
