"""Spans: what an agent does, step by step."""

from ratchet.observe.capture import capture, plain, readable
from ratchet.observe.collector import (
    BLOCKED_SUFFIX,
    Collector,
    collect_process,
    collecting,
    current_collector,
)
from ratchet.observe.conversations import conversation
from ratchet.observe.decorators import ENTRY_MARK, agent, llm_call, retriever, rollout, tool, trace
from ratchet.observe.otel_spans import warm_up
from ratchet.observe.rewards import emit_reward
from ratchet.observe.rollout_capture import capture_rollouts
from ratchet.observe.setup import Handle, init
from ratchet.observe.step import SideEffectBlocked, Step, is_async
from ratchet.observe.thread_context import carry_context

__all__ = [
    "BLOCKED_SUFFIX",
    "ENTRY_MARK",
    "Collector",
    "Handle",
    "SideEffectBlocked",
    "Step",
    "agent",
    "capture",
    "capture_rollouts",
    "carry_context",
    "collect_process",
    "collecting",
    "conversation",
    "current_collector",
    "emit_reward",
    "init",
    "is_async",
    "llm_call",
    "plain",
    "readable",
    "retriever",
    "rollout",
    "tool",
    "trace",
    "warm_up",
]
