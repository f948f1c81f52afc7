"""Spans: what an agent does, step by step."""

from ratchet.observe.capture import capture, plain
from ratchet.observe.collector import (
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
    rollout,
    tool,
    trace,
)
from ratchet.observe.threads import carry_context
from ratchet.observe.tracer import warm_up

__all__ = [
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
    "plain",
    "rollout",
    "tool",
    "trace",
    "warm_up",
]
