"""A rollout as text for a coach: the task, the agent's steps, the result and the feedback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ratchet.learn.work import Evaluation
from ratchet.observe.step_text import cut, steps_of, text_of
from ratchet.types import Span

MAX_STEPS = 12_000
"""Maximum characters of all steps of a rollout."""

MAX_FIELD = 2_000
"""Maximum characters of the input, the expected answer, the output, the error and the feedback."""


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate's result on one train task."""

    input: Any
    output: Any = None
    """The agent's answer; None if there is none, or if it is merely the agent's own score."""
    expected: Any = None
    error: str = ""
    """Why the rollout failed, timed out or was cut off; empty if it did not."""
    value: float | None = None
    """The objective's score; None if the evaluator failed."""
    feedback: str = ""
    """The evaluators' rationales."""
    trace: str = ""
    """The agent's steps in start order, truncated."""


def example_of(evaluation: Evaluation, spans: Sequence[Span] = ()) -> Example:
    """An evaluation as an example.

    Args:
        evaluation: The rollout with its scores. It must be of a train task: the text goes to a
            coach.
        spans: Its spans, in start order.
    """
    rollout = evaluation.rollout
    rationales = [
        f"{name}: {score.rationale or score.error}"
        for name, score in evaluation.scores.items()
        if score.rationale or score.error
    ]
    failed = rollout.status != "succeeded"
    known = {text_of(rollout.input).strip(), text_of(rollout.output).strip()}
    return Example(
        input=rollout.input,
        output=None if _is_reward(evaluation) else rollout.output,
        expected=rollout.expected,
        error=f"The rollout {rollout.status.replace('_', ' ')}: {rollout.error}" if failed else "",
        value=evaluation.value,
        feedback="\n".join(rationales),
        trace=cut("\n".join(steps_of(spans, known)), MAX_STEPS),
    )


def _example_text(example: Example, *, title: str) -> str:
    """An example as text under a heading, such as `Rollout 1`."""
    score = "unknown" if example.value is None else f"{example.value:.3g}"
    lines = [f"### {title} (score {score})", *_field("Task", example.input)]
    if example.expected is not None:
        lines += _field("Expected answer", example.expected)
    if example.trace:
        lines += ["What the agent did:", example.trace]
    if example.output is not None:
        lines += _field("The agent's answer", example.output)
    if example.error:
        lines += _field("Error", example.error)
    if example.feedback:
        lines += _field("Feedback", example.feedback)
    return "\n".join(lines)


def transcript(evaluation: Evaluation, spans: Sequence[Span], *, title: str) -> str:
    """A rollout as text, with its steps in full length."""
    return _example_text(example_of(evaluation, spans), title=title)


def _is_reward(evaluation: Evaluation) -> bool:
    """Whether the agent returned its own score, which is no answer."""
    reward = evaluation.scores.get("reward")
    output = evaluation.rollout.output
    return reward is not None and type(output) in (int, float) and reward.value == output


def _field(name: str, value: Any) -> list[str]:
    text = cut(text_of(value).strip(), MAX_FIELD)
    return [f"{name}: {text}"] if "\n" not in text else [f"{name}:", text]
