"""Gateway targets: the attempt of a rollout or the live agent that a call belongs to."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal, TypeAlias
from urllib.parse import unquote_to_bytes

import msgspec

from ratchet.server.gateway.headers import ROLLOUT_HEADER
from ratchet.server.problems import Problem
from ratchet.types import Attempt

_ATTEMPT = re.compile(r"([A-Za-z0-9._:-]{1,200})@([0-9]{1,9})")
_AGENT = re.compile(r"[A-Za-z0-9._-]{1,100}")
_PARAMETER = b"ratchet_rollout="
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16


class GatewayTarget(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of a rollout, or a live agent."""

    rollout_id: str = ""
    """Empty for a live agent."""
    fence: int = 0
    """Fencing token of the attempt, 0 for a live agent."""
    agent: str = ""
    """Name of the live agent, empty for an attempt."""

    @property
    def is_attempt(self) -> bool:
        """Whether it is an attempt of a rollout."""
        return bool(self.rollout_id)

    def __str__(self) -> str:
        return f"{self.rollout_id}@{self.fence}" if self.rollout_id else self.agent


def target_of(text: str) -> GatewayTarget:
    """Parse the scope in a gateway path: ROLLOUT_ID@FENCE, or the name of an agent.

    Raises:
        Problem: It is neither (404).
    """
    if "@" in text:
        found = _ATTEMPT.fullmatch(text)
        if found and int(found[2]) > 0:
            return GatewayTarget(rollout_id=found[1], fence=int(found[2]))
    elif _AGENT.fullmatch(text):
        return GatewayTarget(agent=text)
    raise Problem(
        404,
        f"{text[:300]!r} is neither an attempt nor an agent's name.",
        hint="The gateway is at /gateway/ROLLOUT_ID@FENCE/ or /gateway/AGENT_NAME/;"
        " names hold letters, digits, '.', '_' and '-'.",
    )


def correlated(
    target: GatewayTarget, headers: Iterable[tuple[bytes, bytes]], query: bytes
) -> tuple[GatewayTarget, bytes]:
    """The attempt that a service's call belongs to, by its header or its query parameter.

    Args:
        target: The scope in the path.
        headers: The request's headers.
        query: The request's query string.

    Returns:
        The attempt, or the given target where none is named; and the query string without the
        parameter.

    Raises:
        Problem: What is named is no attempt, or another one than in the path (400).
    """
    named = [value for key, value in headers if key == ROLLOUT_HEADER]
    parts = query.split(b"&") if query else []
    own = [part for part in parts if part.startswith(_PARAMETER)]
    named += [unquote_to_bytes(part[len(_PARAMETER) :]) for part in own]
    for text in {value.decode("latin-1").strip() for value in named} - {""}:
        found = _ATTEMPT.fullmatch(text)
        if found is None:
            raise Problem(
                400,
                f"{text[:300]!r} names no attempt of a rollout.",
                hint=f"Pass the header {ROLLOUT_HEADER.decode()} of the task on as it came.",
            )
        attempt = GatewayTarget(rollout_id=found[1], fence=int(found[2]))
        if target.is_attempt and target != attempt:
            raise Problem(400, f"The call is for {target} by its path, and for {attempt} besides.")
        target = attempt
    return target, b"&".join(part for part in parts if part not in own)


def trace_context(header: bytes) -> tuple[str, str] | None:
    """Trace id and parent span id of a W3C `traceparent` header; None when it is invalid.

    Follows https://www.w3.org/TR/trace-context/#traceparent-header: later versions may append
    fields, version 00 may not, ff is invalid.
    """
    found = _TRACEPARENT.fullmatch(header.decode("latin-1").strip())
    if found is None:
        return None
    version, trace_id, span_id, more = found.groups()
    if version == "ff" or (version == "00" and more):
        return None
    if trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    return trace_id, span_id


AttemptState: TypeAlias = Literal["running", "over", "expired", "unknown"]
"""over: it ended, and late spans are still accepted. expired: it ended, or its lease ran out, more
than LATE_S ago. unknown: there is no such attempt.
"""
ReadAttemptState: TypeAlias = Callable[[str, int], Awaitable[AttemptState]]
"""Reads the state of an attempt, by rollout id and fence."""

LATE_S = 3600.0
"""Seconds after an attempt's end for which its token still sends spans: exporters flush when their
process ends, and retry for minutes while the server is unreachable.
"""

FRESH_S = 2.0
"""Lifetime of a cached state, in seconds."""

UNKNOWN_S = 0.25
"""Lifetime of a cached `unknown`, in seconds; short, since the rollout may be created soon."""

MAX_STATES = 10_000
"""Most cached states."""


def state_of(attempt: Attempt | None, now: float) -> AttemptState:
    """State of a stored attempt; `unknown` for None."""
    if attempt is None:
        return "unknown"
    ended_at = attempt.lease_until if attempt.ended_at is None else attempt.ended_at
    if now > ended_at + LATE_S:
        return "expired"
    return "running" if attempt.status == "running" else "over"


class AttemptGuard:
    """Admits calls of running attempts, and late spans of attempts that ended recently.

    Args:
        running: Reads the state of an attempt from the store.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self, running: ReadAttemptState, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._running = running
        self._clock = clock
        self._states: dict[tuple[str, int], tuple[float, AttemptState]] = {}

    async def check(self, target: GatewayTarget) -> None:
        """Check that an attempt is running.

        Raises:
            Problem: There is no such rollout (404), or its attempt is over (409).
            RatchetError: The store cannot be read.
        """
        state = await self._state(target.rollout_id, target.fence)
        if state == "unknown":
            raise Problem(
                404,
                f"There is no rollout {target.rollout_id!r}.",
                hint="Use /gateway/ROLLOUT_ID@FENCE/ with a claimed rollout.",
            )
        if state != "running":
            raise Problem(
                409,
                f"Attempt {target.fence} of rollout {target.rollout_id!r} is over.",
                hint="Its lease expired, or it was finished or cancelled; stop the agent.",
            )

    async def check_late(self, rollout_id: str, fence: int) -> None:
        """Check that the token of an attempt may still send spans.

        Raises:
            Problem: Its token has expired (401).
            RatchetError: The store cannot be read.
        """
        if await self._state(rollout_id, fence) in ("expired", "unknown"):
            raise Problem(
                401,
                f"The token of attempt {fence} of rollout {rollout_id!r} has expired.",
                hint=f"It accepts spans until {LATE_S / 60:g} minutes after the attempt's end.",
            )

    async def _state(self, rollout_id: str, fence: int) -> AttemptState:
        key = (rollout_id, fence)
        found = self._states.get(key)
        if found is None or found[0] < self._clock():
            state = await self._running(*key)
            if len(self._states) >= MAX_STATES:
                self._states.clear()
            holds_s = UNKNOWN_S if state == "unknown" else FRESH_S
            found = self._states[key] = (self._clock() + holds_s, state)
        return found[1]

    def forget(self, rollout_id: str, fence: int) -> None:
        """Drop the cached state of an attempt that has ended."""
        self._states.pop((rollout_id, fence), None)
