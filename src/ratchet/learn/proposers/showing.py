"""How a rollout is shown to a coach: input, steps, output and feedback, each cut to a bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ratchet.learn.proposers.proposer import Example
from ratchet.learn.work import Evaluation
from ratchet.types import Span

FIELD = 2_000
"""Characters of an input, an output or a feedback."""

STEPS = 24
"""Steps of a trace."""

STEP = 600
"""Characters of what went into a step, and of what came out of it."""

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
    """An evaluation as a coach sees it.

    Args:
        evaluation: Of a train task.
        spans: Spans of the attempt that ended its rollout, in the order they began.
    """
    rollout = evaluation.rollout
    said = [
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
        feedback=cut("\n".join(said), FIELD),
        trace=trace_of(spans),
    )


def trace_of(spans: Sequence[Span]) -> str:
    """The steps of a rollout below its root, as lines; the last ones when there are many."""
    steps = [span for span in spans if span.parent_id is not None]
    left_out = max(0, len(steps) - STEPS)
    lines = [f"({left_out} earlier steps are left out)"] if left_out else []
    for number, span in enumerate(steps[left_out:], left_out + 1):
        lines.append(f"{number}. {span.name}")
        for label, names in (("in", _INPUTS), ("out", _OUTPUTS)):
            value = next((span.attributes[n] for n in names if n in span.attributes), None)
            if value is not None:
                lines.append(f"   {label}: {cut(said(value), STEP)}")
        if span.status == "error":
            lines.append(f"   failed: {cut(span.message, STEP)}")
    return "\n".join(lines)


def said(value: Any) -> str:
    """Any value as text: text as it is, the rest as JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return repr(value)


def cut(text: str, limit: int) -> str:
    """A text of at most `limit` characters: beginning and end stay, the middle goes."""
    if len(text) <= limit:
        return text
    half = (limit - 20) // 2
    return f"{text[:half]} …({len(text) - 2 * half} more)… {text[-half:]}"
