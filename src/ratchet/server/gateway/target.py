"""Gateway targets: the attempt of a rollout or the live agent that a call belongs to."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes

import msgspec

from ratchet._asgi import Headers
from ratchet.server.gateway.headers import ROLLOUT_HEADER
from ratchet.server.http_problems import HttpProblem

_TOKEN = re.compile(r"ra_[A-Za-z0-9_-]{36,2000}")

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


ReadToken: TypeAlias = Callable[[bytes], tuple[str, int]]
"""Reads a token's rollout id and fence. Raises HttpProblem if this store did not issue it."""


class Addressed(NamedTuple):
    """The target of a call."""

    target: GatewayTarget
    by_token: bool
    """Whether it names its attempt by the token, which nobody else has."""
    query: bytes
    """Its query string, without the parameter that names an attempt."""


def addressed(scope: str, headers: Headers, query: bytes, read_token: ReadToken) -> Addressed:
    """The target of a call: from its path, or, for a service, from its header or query.

    Each names an attempt as ROLLOUT_ID@FENCE or by its token; the path may name an agent instead.

    Args:
        scope: The scope in the path.
        headers: The request's headers.
        query: The request's query string.
        read_token: Reads the token of an attempt.

    Raises:
        HttpProblem: The path names neither attempt nor agent (404); what is named besides is not an
            attempt, or not the one in the path (400); or it is not a token of this store (401).
    """
    target, by_token = _attempt_of(scope, read_token)
    if target is None and "@" not in scope and _AGENT.fullmatch(scope):
        target = GatewayTarget(agent=scope)
    if target is None:
        raise HttpProblem(
            404,
            f"{scope[:300]!r} is neither an attempt nor an agent's name.",
            hint="The gateway is at /gateway/ROLLOUT_ID@FENCE/ or /gateway/AGENT_NAME/;"
            " names hold letters, digits, '.', '_' and '-'.",
        )
    raw_attempts = [value for key, value in headers if key == ROLLOUT_HEADER]
    parts = query.split(b"&") if query else []
    own = [part for part in parts if part.startswith(_PARAMETER)]
    raw_attempts += [unquote_to_bytes(part[len(_PARAMETER) :]) for part in own]
    for text in {value.decode("latin-1").strip() for value in raw_attempts} - {""}:
        attempt, with_token = _attempt_of(text, read_token)
        if attempt is None:
            raise HttpProblem(
                400,
                f"{text[:300]!r} does not name an attempt of a rollout.",
                hint=f"Pass on the task's header {ROLLOUT_HEADER.decode()} unchanged.",
            )
        if target.is_attempt and target != attempt:
            raise HttpProblem(
                400, f"The call's path names {target}, but the call also names {attempt}."
            )
        target, by_token = attempt, by_token or with_token
    return Addressed(target, by_token, b"&".join(part for part in parts if part not in own))


def _attempt_of(text: str, read_token: ReadToken) -> tuple[GatewayTarget | None, bool]:
    """The attempt that a text names, if any, and whether the text is its token."""
    if _TOKEN.fullmatch(text):
        rollout_id, fence = read_token(text.encode())
        return GatewayTarget(rollout_id=rollout_id, fence=fence), True
    match = _ATTEMPT.fullmatch(text)
    if match is None or not int(match[2]):
        return None, False
    return GatewayTarget(rollout_id=match[1], fence=int(match[2])), False


def trace_context(header: bytes) -> tuple[str, str] | None:
    """Trace id and parent span id of a W3C `traceparent` header; None when it is invalid.

    Follows https://www.w3.org/TR/trace-context/#traceparent-header: later versions may append
    fields, version 00 may not, ff is invalid.
    """
    match = _TRACEPARENT.fullmatch(header.decode("latin-1").strip())
    if match is None:
        return None
    version, trace_id, span_id, more = match.groups()
    if version == "ff" or (version == "00" and more):
        return None
    if trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    return trace_id, span_id


AttemptState: TypeAlias = Literal["running", "over", "unknown"]
ReadAttemptState: TypeAlias = Callable[[str, int], Awaitable[AttemptState]]
"""Reads the state of an attempt, by rollout id and fence."""

CACHE_TTL_S = 2.0
"""Lifetime of a cached state, in seconds."""

UNKNOWN_S = 0.25
"""Lifetime of a cached `unknown`, in seconds; short, since the rollout may be created soon."""

MAX_STATES = 10_000
"""Maximum number of cached states."""


class AttemptGuard:
    """Admits calls of running attempts.

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
            HttpProblem: There is no such rollout (404), or its attempt is over (409).
            RatchetError: The store cannot be read.
        """
        state = await self._state(target.rollout_id, target.fence)
        if state == "unknown":
            raise HttpProblem(
                404,
                f"There is no rollout {target.rollout_id!r}.",
                hint="Use /gateway/ROLLOUT_ID@FENCE/ with a claimed rollout.",
            )
        if state != "running":
            raise HttpProblem(
                409,
                f"Attempt {target.fence} of rollout {target.rollout_id!r} is over.",
                hint="Its lease expired, or it was finished or cancelled; stop the agent.",
            )

    async def _state(self, rollout_id: str, fence: int) -> AttemptState:
        key = (rollout_id, fence)
        cached = self._states.get(key)
        if cached is None or cached[0] < self._clock():
            state = await self._running(*key)
            if len(self._states) >= MAX_STATES:
                self._states.clear()
            holds_s = UNKNOWN_S if state == "unknown" else CACHE_TTL_S
            cached = self._states[key] = (self._clock() + holds_s, state)
        return cached[1]

    def forget(self, rollout_id: str, fence: int) -> None:
        """Drop the cached state of an attempt that has ended."""
        self._states.pop((rollout_id, fence), None)
