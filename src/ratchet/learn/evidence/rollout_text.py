"""A rollout as text for a coach: the task, the agent's steps, the result and the feedback."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ratchet.learn.work import Evaluation
from ratchet.types import Span

MAX_STEP = 4_000
"""Maximum characters of one step."""

MAX_STEPS = 12_000
"""Maximum characters of all steps of a rollout."""

MAX_ALL_STEPS = 32_000
"""Maximum characters of the steps of all rollouts in one request."""

MAX_FIELD = 2_000
"""Maximum characters of the input, the expected answer, the output, the error and the feedback."""

_NOT_STEPS = frozenset({"invoke_agent", "create_agent", "invoke_workflow"})


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
        trace=cut("\n".join(_steps(spans, known)), MAX_STEPS),
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


def text_of(value: Any) -> str:
    """A JSON value as text; a string unchanged."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError, OverflowError):
        return repr(value)


def cut(text: str, limit: int) -> str:
    """A text truncated in the middle to the limit."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    left_out = len(text) - limit
    return f"{text[:head]}\n[... {left_out} characters left out ...]\n{text[-(limit - head) :]}"


def _field(name: str, value: Any) -> list[str]:
    text = cut(text_of(value).strip(), MAX_FIELD)
    return [f"{name}: {text}"] if "\n" not in text else [f"{name}:", text]


def _steps(spans: Sequence[Span], known: set[str]) -> Iterator[str]:
    """The steps of the trace; content repeated by several spans appears once.

    Args:
        spans: The spans.
        known: Texts shown elsewhere: the task and the answer.
    """
    seen: set[str] = set()
    for span in spans:
        if span.attributes.get("gen_ai.operation.name") in _NOT_STEPS:
            continue
        for line in _span_lines(span, known):
            line = cut(line, MAX_STEP)
            if line not in seen:
                seen.add(line)
                yield line
        if span.status == "error" and span.message and span.message not in seen:
            seen.add(span.message)
            yield f"- {span.name} failed: {cut(span.message, MAX_STEP)}"


def _span_lines(span: Span, known: set[str]) -> Iterator[str]:
    attributes = span.attributes
    if "gen_ai.input.messages" in attributes or "gen_ai.output.messages" in attributes:
        yield from _conversation(attributes.get("gen_ai.input.messages"), known)
        yield from _conversation(attributes.get("gen_ai.output.messages"), known)
        return
    name = attributes.get("gen_ai.tool.name")
    if name is not None:
        yield _called(name, attributes.get("gen_ai.tool.call.arguments", ""))
        if "gen_ai.tool.call.result" in attributes:
            yield _returned(attributes["gen_ai.tool.call.result"])
        return
    output = attributes.get("ratchet.output", attributes.get("output.value"))
    if span.parent_id is not None and output is not None:
        given = _plain(attributes.get("ratchet.input", attributes.get("input.value", "")))
        yield f"- step {span.name}: {given} -> {_plain(output)}"


def _conversation(value: Any, known: set[str]) -> Iterator[str]:
    """Messages without the instructions: those are the prompts to be improved."""
    for message in entries_in(value):
        role = message.get("role")
        if role in ("system", "developer"):
            continue
        for part in entries_in(message.get("parts")):
            kind = part.get("type")
            if kind == "tool_call":
                yield _called(part.get("name"), part.get("arguments", ""))
            elif kind == "tool_call_response":
                yield _returned(part.get("response", ""))
            elif kind == "text" and str(part.get("content", "")).strip() not in known | {""}:
                yield f"- {role}: {part['content']}"


def _called(name: Any, arguments: Any) -> str:
    return f"- calls tool {name}({_plain(arguments)})"


def _returned(result: Any) -> str:
    return f"- tool returns: {_plain(result)}"


def _plain(value: Any) -> str:
    """A captured value: JSON strings are decoded, other JSON is normalised."""
    if isinstance(value, str):
        decoded = decoded_json(value)
        if decoded is None:
            return value
        value = decoded
    return value if isinstance(value, str) else text_of(value)


def entries_in(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, which may be JSON text; foreign data, so any field may be missing."""
    listed = decoded_json(value) if isinstance(value, str) else value
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def decoded_json(text: str) -> Any:
    """A JSON text decoded; None if it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
