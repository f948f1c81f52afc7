"""Ids of traces and spans, from a random generator of their own.

With the global `random`, an agent that seeds it would repeat ids, and tracing would change its
random numbers.
"""

from __future__ import annotations

import os
import random
import secrets

from ratchet.types import content_hash

_source = random.Random(secrets.randbits(256))  # noqa: S311 - unique, not secret
_bits = _source.getrandbits

# Reseeded: a forked child must not repeat its parent's ids.
os.register_at_fork(after_in_child=lambda: _source.seed(secrets.randbits(256)))


def new_span_id() -> int:
    """A nonzero number of 64 bits."""
    return _bits(64) or 1


def new_trace_id() -> int:
    """A nonzero number of 128 bits."""
    return _bits(128) or 1


def attempt_trace_id(rollout_id: str, fence: int) -> str:
    """Trace id of an attempt's spans.

    Returns:
        32 hex digits.
    """
    return content_hash(["trace", rollout_id, fence])


def attempt_span_id(rollout_id: str, fence: int) -> str:
    """Id of an attempt's root span.

    Returns:
        16 hex digits.
    """
    return content_hash(["span", rollout_id, fence])[:16]


def traceparent(rollout_id: str, fence: int) -> str:
    """The W3C trace context of an attempt, sampled, as in the variable TRACEPARENT."""
    return f"00-{attempt_trace_id(rollout_id, fence)}-{attempt_span_id(rollout_id, fence)}-01"
