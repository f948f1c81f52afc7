"""Patience: which requests are sent again, after how long, and when to give up."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

import msgspec

from ratchet.client.call import ApiRequest, ApiResponse, Steps
from ratchet.client.failures import RequestRefused, ServerUnreachable, error_of
from ratchet.types import RatchetError

T = TypeVar("T")

_jitter = random.Random().random  # noqa: S311
"""Not the global one, which may be an agent's: calls of ours change none of its numbers."""

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

AGAIN = frozenset({408, 429, 502, 503, 504})
"""Statuses that say nothing against the request: it may be sent again."""


class RetryPause(msgspec.Struct, frozen=True):
    """Wait before what comes next."""

    seconds: float


Came: TypeAlias = ApiResponse | RequestRefused | ServerUnreachable | None
"""What became of a request; None after a pause."""

Clock = Callable[[], float]


def with_retries(
    steps: Steps[T],
    patience_s: float,
    *,
    clock: Clock = time.monotonic,
    jitter: Callable[[], float] = _jitter,
) -> Generator[ApiRequest | RetryPause, Came, T]:
    """Go through a call, and send again what may succeed later.

    Every call of the API may be sent twice: what it makes is named by the caller, what it ends is
    told by its fence.

    Args:
        steps: The call.
        patience_s: How long each of its requests may be sent again.
        clock: Seconds, from any beginning, never going back.
        jitter: Numbers in [0, 1) that spread out clients which failed together.

    Raises:
        RatchetError: What the server refused, or that it could not be reached.
    """
    try:
        request = next(steps)
        while True:
            try:
                answer = yield from _exchange(request, patience_s, clock, jitter)
            except RatchetError as error:
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def _exchange(
    request: ApiRequest, patience_s: float, clock: Clock, jitter: Callable[[], float]
) -> Generator[ApiRequest | RetryPause, Came, ApiResponse]:
    deadline = clock() + patience_s
    pause_s = FIRST_PAUSE_S
    while True:
        came = yield request
        if isinstance(came, ApiResponse):
            return came
        assert came is not None
        # Half of it at least: a server that comes back is not met by everyone at once.
        wait_s = pause_s * (0.5 + 0.5 * jitter())
        if isinstance(came, RequestRefused):
            if came.retry_after_s is not None:
                wait_s += came.retry_after_s
            hopeless = came.status not in AGAIN
        else:
            hopeless = came.final
        if hopeless or clock() + wait_s > deadline:
            raise error_of(came)
        yield RetryPause(wait_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
