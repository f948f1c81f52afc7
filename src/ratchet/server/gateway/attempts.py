"""Attempts: whether one still runs, asked of the store every few seconds and not at every call."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from ratchet.server.gateway.target import Target
from ratchet.server.problems import Problem

State: TypeAlias = Literal["running", "over", "unknown"]
Running: TypeAlias = Callable[[str, int], Awaitable[State]]
"""State of an attempt, by rollout id and fence: unknown when there is no such rollout."""

FRESH_S = 2.0
"""How long an answer holds, in seconds."""

UNKNOWN_S = 0.25
"""How long it holds that there is no such rollout, in seconds: it may be made any moment."""

MAX_KEPT = 10_000
"""Answers kept."""


class Attempts:
    """Lets calls of attempts pass that run.

    Args:
        running: Asks the store.
        clock: Seconds, from any beginning, never going back.
    """

    def __init__(self, running: Running, clock: Callable[[], float] = time.monotonic) -> None:
        self._running = running
        self._clock = clock
        self._kept: dict[tuple[str, int], tuple[float, State]] = {}

    async def check(self, target: Target) -> None:
        """Return when the attempt runs.

        Raises:
            Problem: There is no such rollout (404), or its attempt is over (409).
            RatchetError: The store cannot be asked.
        """
        key = (target.rollout_id, target.fence)
        found = self._kept.get(key)
        if found is None or found[0] < self._clock():
            state = await self._running(*key)
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            holds_s = UNKNOWN_S if state == "unknown" else FRESH_S
            found = self._kept[key] = (self._clock() + holds_s, state)
        if found[1] == "unknown":
            raise Problem(
                404,
                f"There is no rollout {target.rollout_id!r}.",
                hint="The gateway takes /gateway/ROLLOUT_ID@FENCE/ of a rollout that is claimed.",
            )
        if found[1] == "over":
            raise Problem(
                409,
                f"Attempt {target.fence} of rollout {target.rollout_id!r} is over.",
                hint="Its lease expired, or it was finished or cancelled; stop the agent.",
            )

    def forget(self, rollout_id: str, fence: int) -> None:
        """Ask anew at the next call: the attempt has ended."""
        self._kept.pop((rollout_id, fence), None)
