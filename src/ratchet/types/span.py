"""Spans: the steps of one rollout or live request, in OpenTelemetry's terms."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ratchet.types.transition import Transition


class SpanEvent(msgspec.Struct, frozen=True):
    """A timestamped event within a span, such as an exception."""

    name: str
    time_ns: int
    """Unix time in nanoseconds."""
    attributes: dict[str, Any] = {}


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One step: an agent call, a tool call, an LLM call."""

    trace_id: str
    """32 hex digits."""
    span_id: str
    """16 hex digits."""
    parent_id: str | None = None
    """16 hex digits, or None for a root."""
    name: str
    start_ns: int
    """Unix time in nanoseconds."""
    end_ns: int
    """Unix time in nanoseconds."""
    status: Literal["unset", "ok", "error"] = "unset"
    message: str = ""
    """Error message, if the status is error."""
    attributes: dict[str, Any] = {}
    events: tuple[SpanEvent, ...] = ()


class SpanRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A span and its owner: an attempt of a rollout, or a live agent."""

    span: Span
    rollout_id: str = ""
    """Empty for live traffic."""
    fence: int = 0
    """Fencing token of the attempt, 0 for live traffic."""
    agent: str = ""
    """Name of the live agent, empty for rollouts."""
    transitions: tuple[Transition, ...] = ()
    """The tokens of a model call in a rollout, for each of its choices."""
    claimed: bool = False
    """Whether an attempt's agent sent it, so that it only counts while the attempt runs. What a
    server itself records counts until the rollout has ended."""
