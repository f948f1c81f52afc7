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

MAX_ALL_STEPS = 32_000
"""Maximum characters of the steps of all rollouts in one request."""

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
    remark: str = ""
    """What else is known of it, such as that the version before failed too."""


def example_of(evaluation: Evaluation, spans: Sequence[Span] = (), *, remark: str = "") -> Example:
    """An evaluation as an example.

    Args:
        evaluation: The rollout with its scores. It must be of a train task: the text goes to a
            coach.
        spans: Its spans, in start order.
        remark: What else is known of it.
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
        remark=remark,
    )


def examples_text(examples: Sequence[Example]) -> str:
    """Numbered examples as one text; the more there are, the shorter the steps of each."""
    room = min(MAX_STEPS, MAX_ALL_STEPS // max(1, len(examples)))
    return "\n\n".join(
        example_text(example, title=f"Rollout {number}", steps=room)
        for number, example in enumerate(examples, 1)
    )


def example_text(example: Example, *, title: str, steps: int = MAX_STEPS) -> str:
    """An example as text.

    Args:
        example: The example.
        title: Heading, such as `Rollout 1`.
        steps: Maximum characters of the agent's steps.
    """
    score = "unknown" if example.value is None else f"{example.value:.3g}"
    remark = f"; {example.remark}" if example.remark else ""
    lines = [f"### {title} (score {score}{remark})", *_field("Task", example.input)]
    if example.expected is not None:
        lines += _field("Expected answer", example.expected)
    if example.trace:
        lines += ["What the agent did:", cut(example.trace, steps)]
    if example.output is not None:
        lines += _field("The agent's answer", example.output)
    if example.error:
        lines += _field("Error", example.error)
    if example.feedback:
        lines += _field("Feedback", example.feedback)
    return "\n".join(lines)


def transcript(evaluation: Evaluation, spans: Sequence[Span], *, title: str) -> str:
    """A rollout as text, with its steps in full length."""
    return example_text(example_of(evaluation, spans), title=title)


def _is_reward(evaluation: Evaluation) -> bool:
    """Whether the agent returned its own score, which is no answer."""
    reward = evaluation.scores.get("reward")
    output = evaluation.rollout.output
    return reward is not None and type(output) in (int, float) and reward.value == output


def _field(name: str, value: Any) -> list[str]:
    text = cut(text_of(value).strip(), MAX_FIELD)
    return [f"{name}: {text}"] if "\n" not in text else [f"{name}:", text]
