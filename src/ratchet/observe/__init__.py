"""Spans: what an agent does, step by step."""

from ratchet.observe.capture import capture, plain, readable
from ratchet.observe.collector import (
    BLOCKED_SUFFIX,
    Collector,
    collect_process,
    collecting,
    current_collector,
)
from ratchet.observe.reward import emit_reward
from ratchet.observe.step import (
    ENTRY_MARK,
    SideEffectBlocked,
    Step,
    agent,
    is_async,
    rollout,
    tool,
    trace,
)
from ratchet.observe.threads import carry_context
from ratchet.observe.tracer import warm_up

__all__ = [
    "BLOCKED_SUFFIX",
    "ENTRY_MARK",
    "Collector",
    "SideEffectBlocked",
    "Step",
    "agent",
    "capture",
    "carry_context",
    "collect_process",
    "collecting",
    "current_collector",
    "emit_reward",
    "is_async",
    "plain",
    "readable",
    "rollout",
    "tool",
    "trace",
    "warm_up",
]
