"""Evaluator of order, number and prohibitions of a rollout's tool calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from ratchet.evaluate.called_tools import (
    ArgumentMatch,
    CalledTool,
    CallMatch,
    called_tools,
    described,
    wanted_tools,
)
from ratchet.types import InputError, Span
from ratchet.types.wording import counted
from ratchet.worker.evaluator import FunctionEvaluator, Judgement

TrajectoryOrder: TypeAlias = Literal["strict", "in_order", "unordered", "subset"]


def trajectory(
    *,
    order: TrajectoryOrder = "strict",
    arguments: ArgumentMatch = "ignore",
    forbidden: Sequence[str] = (),
    max_steps: int | None = None,
    tolerance: float = 0.0,
) -> FunctionEvaluator:
    """1 if the rollout's tool calls are as expected, none is forbidden, and not too many are made.

    Expected calls are given as for `tool_calls`. A task may have none where `forbidden` or
    `max_steps` is set.

    Args:
        order: `strict`: the expected calls in their order, and no others; `in_order`: the expected
            ones in their order, others between them; `unordered`: the expected ones in any order,
            and no others; `subset`: the expected ones in any order, and others.
        arguments: As for `tool_calls`.
        forbidden: Names of tools that must not be called.
        max_steps: Maximum number of tool calls.
        tolerance: Largest difference of equal numbers in arguments.

    Raises:
        InputError: A number is negative or not finite.
    """
    if max_steps is not None and max_steps < 0:
        raise InputError(f"max_steps is {max_steps}; it must be 0 or more.")
    if not math.isfinite(tolerance) or tolerance < 0:
        raise InputError(f"The tolerance is {tolerance}; it must be a finite number, 0 or more.")
    match = CallMatch(arguments, tolerance)
    bounded = bool(forbidden) or max_steps is not None

    def judge(spans: list[Span], metadata: dict[str, Any], expected: Any = None) -> Judgement:
        got = called_tools(spans)
        for call in got:
            if call.name in forbidden:
                return Judgement(0.0, f"{call.name} is forbidden")
        if max_steps is not None and len(got) > max_steps:
            return Judgement(0.0, f"{counted(len(got), 'call')}, but only {max_steps} are allowed")
        # With bounds of its own an expected answer need not be one of calls.
        if bounded and "tool_calls" not in metadata and not _is_calls(expected):
            return Judgement(1.0, f"{counted(len(got), 'call')}, none of them forbidden")
        wanted = wanted_tools(expected, metadata)
        why = _difference(order, match, wanted, got)
        return Judgement(float(not why), why or f"{counted(len(got), 'call')} as expected")

    return FunctionEvaluator(
        judge,
        name="trajectory",
        benchmarked=True,
        options={
            "order": order,
            "arguments": arguments,
            "forbidden": list(forbidden),
            "max_steps": max_steps,
            "tolerance": tolerance,
        },
    )


def _is_calls(expected: Any) -> bool:
    return isinstance(expected, list) and all(isinstance(call, (str, dict)) for call in expected)


def _difference(
    order: TrajectoryOrder,
    match: CallMatch,
    wanted: Sequence[CalledTool],
    got: Sequence[CalledTool],
) -> str:
    """The difference between the calls and the expected ones; empty if there is none."""
    if order in ("unordered", "subset"):
        _, missing, more = match.matched(wanted, got)
        if missing:
            return f"missing: {described(missing)}"
        return f"not expected: {described(more)}" if more and order == "unordered" else ""
    at = 0
    for number, call in enumerate(got, start=1):
        if at < len(wanted) and match.same(wanted[at], call):
            at += 1
        elif order == "strict":
            wanted_call = described([wanted[at]]) if at < len(wanted) else "no further call"
            return f"call {number} is {described([call])} where {wanted_call} is expected"
    return f"missing: {described(wanted[at:])}" if at < len(wanted) else ""
