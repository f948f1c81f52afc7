"""Formats a rollout for a coach: input, steps, output and feedback, each truncated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ratchet.learn.proposers.proposer import Example
from ratchet.learn.work import Evaluation
from ratchet.types import Span

FIELD = 2_000
"""Maximum characters of an input, an output or a feedback."""

STEPS = 24
"""Maximum number of steps of a trace."""

STEP = 600
"""Maximum characters of a step's input, and of its output."""

_INPUTS = (
    "gen_ai.tool.call.arguments",
    "gen_ai.input.messages",
    "ratchet.input",
    "input.value",
)
_OUTPUTS = (
    "gen_ai.tool.call.result",
    "gen_ai.output.messages",
    "ratchet.output",
    "output.value",
)


def shown(evaluation: Evaluation, spans: Sequence[Span]) -> Example:
    """An evaluation as an example for a coach.

    Args:
        evaluation: An evaluation of a train task.
        spans: Spans of the rollout's final attempt, in start order.
    """
    rollout = evaluation.rollout
    rationales = [
        f"{name}: {score.rationale or score.error}"
        for name, score in evaluation.scores.items()
        if score.rationale or score.error
    ]
    failed = rollout.status != "succeeded"
    return Example(
        input=evaluation.task.input,
        output=rollout.output,
        expected=evaluation.task.expected,
        error=f"The rollout {rollout.status.replace('_', ' ')}: {rollout.error}" if failed else "",
        value=evaluation.value,
        feedback=cut("\n".join(rationales), FIELD),
        trace=trace_of(spans),
    )


def trace_of(spans: Sequence[Span]) -> str:
    """The steps of a rollout below its root, one per line; only the last ones if there are many."""
    steps = [span for span in spans if span.parent_id is not None]
    left_out = max(0, len(steps) - STEPS)
    lines = [f"({left_out} earlier steps are left out)"] if left_out else []
    for number, span in enumerate(steps[left_out:], left_out + 1):
        lines.append(f"{number}. {span.name}")
        for label, names in (("in", _INPUTS), ("out", _OUTPUTS)):
            value = next((span.attributes[n] for n in names if n in span.attributes), None)
            if value is not None:
                lines.append(f"   {label}: {cut(text_of(value), STEP)}")
        if span.status == "error":
            lines.append(f"   failed: {cut(span.message, STEP)}")
    return "\n".join(lines)


def text_of(value: Any) -> str:
    """A value as text: a string unchanged, anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return repr(value)


def cut(text: str, limit: int) -> str:
    """A text truncated in the middle to about `limit` characters."""
    if len(text) <= limit:
        return text
    half = (limit - 20) // 2
    return f"{text[:half]} …({len(text) - 2 * half} more)… {text[-half:]}"
