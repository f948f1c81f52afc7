"""The trace of an attempt, the same for everybody who knows its rollout and fence."""

from __future__ import annotations

from ratchet.types import content_hash


def attempt_trace_id(rollout_id: str, fence: int) -> str:
    """The trace that an attempt's spans belong to.

    Returns:
        32 hex digits.
    """
    return content_hash(["trace", rollout_id, fence])


def attempt_span_id(rollout_id: str, fence: int) -> str:
    """The span of an attempt as a whole, under which its calls stand.

    Returns:
        16 hex digits.
    """
    return content_hash(["span", rollout_id, fence])[:16]


def traceparent(rollout_id: str, fence: int) -> str:
    """The W3C trace context of an attempt, sampled, as the variable TRACEPARENT carries it."""
    return f"00-{attempt_trace_id(rollout_id, fence)}-{attempt_span_id(rollout_id, fence)}-01"
