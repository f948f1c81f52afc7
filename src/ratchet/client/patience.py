"""Patience: which requests are sent again, after how long, and when to give up."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

import msgspec

from ratchet.client.call import Answer, Request, Steps
from ratchet.client.failures import Refused, Unreached, error_of
from ratchet.types import RatchetError

T = TypeVar("T")

_luck = random.Random().random  # noqa: S311
"""Not the global one, which may be an agent's: calls of ours change none of its numbers."""

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

AGAIN = frozenset({408, 429, 502, 503, 504})
"""Statuses that say nothing against the request: it may be sent again."""


class Pause(msgspec.Struct, frozen=True):
    """Wait before what comes next."""

    seconds: float


Came: TypeAlias = Answer | Refused | Unreached | None
"""What became of a request; None after a pause."""

Clock = Callable[[], float]


def patiently(
    steps: Steps[T],
    patience_s: float,
    *,
    clock: Clock = time.monotonic,
    luck: Callable[[], float] = _luck,
) -> Generator[Request | Pause, Came, T]:
    """Go through a call, and send again what may succeed later.

    Every call of the API may be sent twice: what it makes is named by the caller, what it ends is
    told by its fence.

    Args:
        steps: The call.
        patience_s: How long each of its requests may be sent again.
        clock: Seconds, from any beginning, never going back.
        luck: Numbers in [0, 1) that spread out clients which failed together.

    Raises:
        RatchetError: What the server refused, or that it could not be reached.
    """
    try:
        request = next(steps)
        while True:
            try:
                answer = yield from _exchange(request, patience_s, clock, luck)
            except RatchetError as error:
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def _exchange(
    request: Request, patience_s: float, clock: Clock, luck: Callable[[], float]
) -> Generator[Request | Pause, Came, Answer]:
    deadline = clock() + patience_s
    pause_s = FIRST_PAUSE_S
    while True:
        came = yield request
        if isinstance(came, Answer):
            return came
        assert came is not None
        # Half of it at least: a server that comes back is not met by everyone at once.
        wait_s = pause_s * (0.5 + 0.5 * luck())
        if isinstance(came, Refused):
            if came.retry_after_s is not None:
                wait_s += came.retry_after_s
            hopeless = came.status not in AGAIN
        else:
            hopeless = came.final
        if hopeless or clock() + wait_s > deadline:
            raise error_of(came)
        yield Pause(wait_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
