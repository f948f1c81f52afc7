"""Transcripts: a rollout as text for a coach: the task, the agent's steps and the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ratchet.learn.work import Evaluation
from ratchet.types import Span

MAX_STEP = 4_000
"""Maximum characters of one step."""

MAX_TRACE = 12_000
"""Maximum characters of all steps of a rollout."""

MAX_FIELD = 2_000
"""Maximum characters of the input, the expected answer, the output and the error."""

_NOT_STEPS = frozenset({"invoke_agent", "create_agent", "invoke_workflow"})


def transcript(evaluation: Evaluation, spans: Sequence[Span], *, title: str) -> str:
    """A rollout as text.

    Args:
        evaluation: The rollout with its scores. It must be of a train task: the text goes to a
            coach.
        spans: Its spans, in start order.
        title: Heading, such as `Rollout 1`.
    """
    rollout = evaluation.rollout
    score = "none" if evaluation.value is None else f"{evaluation.value:.2f}"
    lines = [f"### {title} (score {score}, {rollout.status.replace('_', ' ')})"]
    lines += _field("Task", rollout.input)
    if rollout.expected is not None:
        lines += _field("Expected answer", rollout.expected)
    steps = cut("\n".join(_steps(spans)), MAX_TRACE)
    if steps:
        lines += ["What the agent did:", steps]
    if rollout.output is not None and not _is_reward(evaluation):
        lines += _field("The agent's answer", rollout.output)
    if rollout.error:
        lines += _field("Error", rollout.error)
    for name, given in evaluation.scores.items():
        comment = given.rationale or given.error
        if comment:
            lines += _field(f"Evaluator {name} says", comment)
    return "\n".join(lines)


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


def _steps(spans: Sequence[Span]) -> Iterator[str]:
    """The steps of the trace; content repeated by several spans appears once."""
    seen: set[str] = set()
    for span in spans:
        if span.attributes.get("gen_ai.operation.name") in _NOT_STEPS:
            continue
        for line in _span_lines(span):
            line = cut(line, MAX_STEP)
            if line not in seen:
                seen.add(line)
                yield line
        if span.status == "error" and span.message and span.message not in seen:
            seen.add(span.message)
            yield f"- {span.name} failed: {cut(span.message, MAX_STEP)}"


def _span_lines(span: Span) -> Iterator[str]:
    attributes = span.attributes
    if "gen_ai.input.messages" in attributes or "gen_ai.output.messages" in attributes:
        yield from _conversation(attributes.get("gen_ai.input.messages"))
        yield from _conversation(attributes.get("gen_ai.output.messages"))
        return
    name = attributes.get("gen_ai.tool.name")
    if name is not None:
        yield _called(name, attributes.get("gen_ai.tool.call.arguments", ""))
        if "gen_ai.tool.call.result" in attributes:
            yield _returned(attributes["gen_ai.tool.call.result"])
        return
    output = attributes.get("ratchet.output")
    if span.parent_id is not None and output is not None:
        given = _plain(attributes.get("ratchet.input", ""))
        yield f"- step {span.name}: {given} -> {_plain(output)}"


def _conversation(value: Any) -> Iterator[str]:
    """Messages without the instructions: those are the prompts to be improved."""
    for message in _entries(value):
        role = message.get("role")
        if role in ("system", "developer"):
            continue
        for part in _entries(message.get("parts")):
            kind = part.get("type")
            if kind == "tool_call":
                yield _called(part.get("name"), part.get("arguments", ""))
            elif kind == "tool_call_response":
                yield _returned(part.get("response", ""))
            elif kind == "text" and str(part.get("content", "")).strip():
                yield f"- {role}: {part['content']}"


def _called(name: Any, arguments: Any) -> str:
    return f"- calls tool {name}({_plain(arguments)})"


def _returned(result: Any) -> str:
    return f"- tool returns: {_plain(result)}"


def _plain(value: Any) -> str:
    """A captured value: JSON strings are decoded, other JSON is normalised."""
    if isinstance(value, str):
        decoded = _decoded(value)
        if decoded is None:
            return value
        value = decoded
    return value if isinstance(value, str) else text_of(value)


def _entries(value: Any) -> list[Mapping[str, Any]]:
    listed = _decoded(value) if isinstance(value, str) else value
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
