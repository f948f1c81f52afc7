"""Patience: a line whose other end may be away for minutes without harm."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from ratchet.run.line import Answers, Line, Pair
from ratchet.run.watching import RunnerWatcher
from ratchet.types import Candidate, Claim, Outcome, Rollout, StoreError

Result = TypeVar("Result")

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0

HURRY_S = 10.0
"""How long is still tried when the runner is being left."""


class PatientLine(Line):
    """Asks again, for as long as it takes, when the other end is away.

    Args:
        line: The line itself.
        watcher: Told once that the other end is away, and once that it is back.
    """

    def __init__(self, line: Line, watcher: RunnerWatcher) -> None:
        self._line = line
        self._watcher = watcher
        self._away_since: float | None = None
        self._answered = asyncio.Event()
        self._deadline: float | None = None

    async def create(self, rollouts: Sequence[Rollout]) -> int:
        """Queue rollouts."""
        return await self._ask(lambda: self._line.create(rollouts))

    async def get(self, ids: Sequence[str]) -> Mapping[str, Rollout]:
        """Rollouts by id."""
        return await self._ask(lambda: self._line.get(ids))

    async def candidate(self, id: str) -> Candidate:
        """The candidate of that id."""
        return await self._ask(lambda: self._line.candidate(id))

    async def claim(
        self, queue: str, worker: str, limit: int, lease_s: float, *, wait_s: float = 0.0
    ) -> list[Claim]:
        """Take the oldest queued rollouts."""
        return await self._ask(
            lambda: self._line.claim(queue, worker, limit, lease_s, wait_s=wait_s)
        )

    async def heartbeat(self, pairs: Sequence[Pair], lease_s: float) -> set[Pair]:
        """Prolong leases."""
        return await self._ask(lambda: self._line.heartbeat(pairs, lease_s))

    async def finish(self, outcomes: Sequence[Outcome]) -> Answers:
        """End attempts."""
        return await self._ask(lambda: self._line.finish(outcomes))

    async def release(self, pairs: Sequence[Pair]) -> None:
        """Give attempts back."""
        await self._ask(lambda: self._line.release(pairs))

    def hurry(self) -> None:
        """Try for HURRY_S more, and then no longer."""
        self._deadline = time.monotonic() + HURRY_S
        self._line.hurry()
        self._wake()

    async def _ask(self, call: Callable[[], Awaitable[Result]]) -> Result:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                result = await call()
            except StoreError as error:
                if self._away_since is None:
                    self._away_since = time.monotonic()
                    self._watcher.away(error)
                wait_s = pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - spreads runners out
                if self._deadline is not None and time.monotonic() + wait_s > self._deadline:
                    raise
            else:
                self._heard()
                return result
            # What one call finds out helps all that wait.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._answered.wait(), wait_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _heard(self) -> None:
        if self._away_since is not None:
            after_s = time.monotonic() - self._away_since
            self._away_since = None
            self._wake()
            self._watcher.back(after_s)

    def _wake(self) -> None:
        """Let all that wait try at once, and those who come later wait again."""
        self._answered.set()
        self._answered.clear()
