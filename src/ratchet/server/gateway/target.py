"""Targets: whom a gateway call belongs to, an attempt of a rollout or a live agent."""

from __future__ import annotations

import re

import msgspec

from ratchet.server.problems import Problem

_ATTEMPT = re.compile(r"([A-Za-z0-9._:-]{1,200})@([0-9]{1,9})")
_AGENT = re.compile(r"[A-Za-z0-9._-]{1,100}")
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16


class Target(msgspec.Struct, frozen=True, kw_only=True):
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


def target_of(text: str) -> Target:
    """The target that a path's scope names: ROLLOUT_ID@FENCE, or the name of an agent.

    Raises:
        Problem: It is neither (404).
    """
    if "@" in text:
        found = _ATTEMPT.fullmatch(text)
        if found and int(found[2]) > 0:
            return Target(rollout_id=found[1], fence=int(found[2]))
    elif _AGENT.fullmatch(text):
        return Target(agent=text)
    raise Problem(
        404,
        f"{text[:300]!r} names neither an attempt nor an agent.",
        hint="The gateway is at /gateway/ROLLOUT_ID@FENCE/ or /gateway/AGENT_NAME/;"
        " names hold letters, digits, '.', '_' and '-'.",
    )


def trace_context(header: bytes) -> tuple[str, str] | None:
    """Trace id and parent's span id of a W3C `traceparent` header; None when it is invalid.

    As https://www.w3.org/TR/trace-context/#traceparent-header has it: later versions may append
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
