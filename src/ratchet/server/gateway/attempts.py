"""Attempts: whether one still runs, asked of the store every few seconds and not at every call."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from ratchet.server.gateway.target import Target
from ratchet.server.problems import Problem
from ratchet.types import Attempt

State: TypeAlias = Literal["running", "over", "expired", "unknown"]
"""over: it ended, and spans of it may still come. expired: it ended, or was last heard of, more
than LATE_S ago. unknown: there is no such attempt."""
Running: TypeAlias = Callable[[str, int], Awaitable[State]]
"""State of an attempt, by rollout id and fence."""

LATE_S = 3600.0
"""How long after its end an attempt's token still sends spans, in seconds: exporters flush when
their process ends, and try for minutes while a server cannot be reached."""

FRESH_S = 2.0
"""How long an answer holds, in seconds."""

UNKNOWN_S = 0.25
"""How long it holds that there is no such rollout, in seconds: it may be made any moment."""

MAX_KEPT = 10_000
"""Answers kept."""


def state_of(attempt: Attempt | None, now: float) -> State:
    """State of an attempt as the store has it; None when it has none."""
    if attempt is None:
        return "unknown"
    ended_at = attempt.lease_until if attempt.ended_at is None else attempt.ended_at
    if now > ended_at + LATE_S:
        return "expired"
    return "running" if attempt.status == "running" else "over"


class Attempts:
    """Lets calls of attempts pass that run, and spans of those that ended a while ago.

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
        state = await self._state(target.rollout_id, target.fence)
        if state == "unknown":
            raise Problem(
                404,
                f"There is no rollout {target.rollout_id!r}.",
                hint="The gateway takes /gateway/ROLLOUT_ID@FENCE/ of a rollout that is claimed.",
            )
        if state != "running":
            raise Problem(
                409,
                f"Attempt {target.fence} of rollout {target.rollout_id!r} is over.",
                hint="Its lease expired, or it was finished or cancelled; stop the agent.",
            )

    async def check_late(self, rollout_id: str, fence: int) -> None:
        """Return when spans of the attempt may still be sent with its token.

        Raises:
            Problem: Its token has expired (401).
            RatchetError: The store cannot be asked.
        """
        if await self._state(rollout_id, fence) in ("expired", "unknown"):
            raise Problem(
                401,
                f"The token of attempt {fence} of rollout {rollout_id!r} has expired.",
                hint=f"It sends spans until {LATE_S / 60:g} minutes after the attempt's end.",
            )

    async def _state(self, rollout_id: str, fence: int) -> State:
        key = (rollout_id, fence)
        found = self._kept.get(key)
        if found is None or found[0] < self._clock():
            state = await self._running(*key)
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            holds_s = UNKNOWN_S if state == "unknown" else FRESH_S
            found = self._kept[key] = (self._clock() + holds_s, state)
        return found[1]

    def forget(self, rollout_id: str, fence: int) -> None:
        """Ask anew at the next call: the attempt has ended."""
        self._kept.pop((rollout_id, fence), None)
