"""Retry policy: which requests are retried, after which pause, and for how long."""

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
"""A generator of its own, so that the global one, which the agent may use, is not changed."""

FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 5.0

RETRIED_STATUSES = frozenset({408, 429, 502, 503, 504})


class RetryPause(msgspec.Struct, frozen=True):
    """A pause before the next request."""

    seconds: float


RequestResult: TypeAlias = ApiResponse | RequestRefused | ServerUnreachable | None
"""Result of a request; None after a pause."""

Clock = Callable[[], float]


def with_retries(
    steps: Steps[T],
    patience_s: float,
    *,
    clock: Clock = time.monotonic,
    jitter: Callable[[], float] = _jitter,
) -> Generator[ApiRequest | RetryPause, RequestResult, T]:
    """Run a call, retrying requests that may succeed later.

    Every request may be sent twice: what it creates has an id from the caller, and what it ends is
    identified by its fence.

    Args:
        steps: The call.
        patience_s: Seconds for which each of its requests is retried.
        clock: Monotonic clock in seconds.
        jitter: Random numbers in [0, 1) that spread clients which failed together.

    Raises:
        RatchetError: The server refused a request, or could not be reached.
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
) -> Generator[ApiRequest | RetryPause, RequestResult, ApiResponse]:
    deadline = clock() + patience_s
    pause_s = FIRST_PAUSE_S
    while True:
        result = yield request
        if isinstance(result, ApiResponse):
            return result
        assert result is not None
        # At least half the pause; the jitter spreads clients when the server comes back.
        wait_s = pause_s * (0.5 + 0.5 * jitter())
        if isinstance(result, RequestRefused):
            if result.retry_after_s is not None:
                wait_s += result.retry_after_s
            permanent = result.status not in RETRIED_STATUSES
        else:
            permanent = result.final
        if permanent or clock() + wait_s > deadline:
            raise error_of(result)
        yield RetryPause(wait_s)
        pause_s = min(2 * pause_s, MAX_PAUSE_S)
