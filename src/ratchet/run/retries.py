"""Retries of calls to a server or store that is unreachable: one outage for all calls in
progress."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from ratchet.types import StoreError

Result = TypeVar("Result")

FIRST_PAUSE_S = 0.2
"""Pause before the first retry; it doubles with each."""

MAX_PAUSE_S = 5.0
"""Longest pause between two retries."""

HURRY_S = 10.0
"""Seconds for which calls are still retried after `hurry`."""


class CallRetries:
    """Retries calls while they raise StoreError.

    Args:
        away: Called once per outage, with the error.
        back: Called with the seconds that an outage lasted.
        give_up_s: Seconds of one outage after which calls raise the error; None for no limit.
    """

    def __init__(
        self,
        away: Callable[[StoreError], None],
        back: Callable[[float], None],
        *,
        give_up_s: float | None = None,
    ) -> None:
        self._away = away
        self._back = back
        self._give_up_s = give_up_s
        self._away_since: float | None = None
        self._answered = asyncio.Event()
        self._deadline: float | None = None

    async def call(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Make a call, repeatedly while the server is unreachable.

        Raises:
            StoreError: It is away for too long.
        """
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                result = await call()
            except StoreError as error:
                if self._away_since is None:
                    self._away_since = time.monotonic()
                    self._away(error)
                wait_s = pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - spreads clients out
                if time.monotonic() + wait_s > self._until(self._away_since):
                    raise
            else:
                self._note_success()
                return result
            # Wakes as soon as any other call succeeds.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._answered.wait()
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    def hurry(self) -> None:
        """Stop retrying after HURRY_S more seconds."""
        self._deadline = time.monotonic() + HURRY_S
        self._wake()

    def _until(self, away_since: float) -> float:
        limits = [float("inf")]
        if self._deadline is not None:
            limits.append(self._deadline)
        if self._give_up_s is not None:
            limits.append(away_since + self._give_up_s)
        return min(limits)

    def _note_success(self) -> None:
        if self._away_since is not None:
            after_s = time.monotonic() - self._away_since
            self._away_since = None
            self._wake()
            self._back(after_s)

    def _wake(self) -> None:
        """Retry all waiting calls now."""
        self._answered.set()
        self._answered.clear()
