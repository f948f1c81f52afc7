"""The steps of a trace as text, for models that read it: a coach or a judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ratchet.types import Span

MAX_STEP = 4_000
"""Maximum length of one step, in characters."""

RETURNED = "- tool returns: "
"""Beginning of a step that is what a tool returned."""

_NOT_STEPS = frozenset({"invoke_agent", "create_agent", "invoke_workflow"})


def text_of(value: Any) -> str:
    """A JSON value as text; a string unchanged."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError, OverflowError):
        return repr(value)


def cut(text: str, limit: int) -> str:
    """A text truncated in the middle to the limit, not counting the mark that says so."""
    left_out = len(text) - limit
    mark = f"\n[... {left_out} characters left out ...]\n"
    if left_out <= len(mark):  # cut, it would be no shorter
        return text
    head = limit * 2 // 3
    return f"{text[:head]}{mark}{text[-(limit - head) :]}"


def steps_of(spans: Sequence[Span], known_texts: set[str]) -> Iterator[str]:
    """The steps of the trace; content repeated by several spans appears once.

    Args:
        spans: The spans.
        known_texts: Texts shown elsewhere: the task and the answer.
    """
    for _, lines in steps_by_span(spans, known_texts):
        yield from lines


def steps_by_span(spans: Sequence[Span], known_texts: set[str]) -> Iterator[tuple[Span, list[str]]]:
    """Like `steps_of`, with the span of each; spans that add nothing are left out."""
    shown_lines: set[str] = set()
    for span in spans:
        if span.attributes.get("gen_ai.operation.name") in _NOT_STEPS:
            continue
        new: list[str] = []
        for line in _span_lines(span, known_texts):
            line = cut(line, MAX_STEP)
            if line not in shown_lines:
                shown_lines.add(line)
                new.append(line)
        if span.status == "error" and span.message and span.message not in shown_lines:
            shown_lines.add(span.message)
            new.append(f"- {span.name} failed: {cut(span.message, MAX_STEP)}")
        if new:
            yield span, new


def _span_lines(span: Span, known_texts: set[str]) -> Iterator[str]:
    attributes = span.attributes
    if "gen_ai.input.messages" in attributes or "gen_ai.output.messages" in attributes:
        yield from _conversation(attributes.get("gen_ai.input.messages"), known_texts)
        yield from _conversation(attributes.get("gen_ai.output.messages"), known_texts)
        return
    name = attributes.get("gen_ai.tool.name")
    if name is not None:
        yield _called(name, attributes.get("gen_ai.tool.call.arguments", ""))
        if "gen_ai.tool.call.result" in attributes:
            yield _returned(attributes["gen_ai.tool.call.result"])
        return
    output = attributes.get("ratchet.output", attributes.get("output.value"))
    if span.parent_id is not None and output is not None:
        arguments = _plain(attributes.get("ratchet.input", attributes.get("input.value", "")))
        yield f"- step {span.name}: {arguments} -> {_plain(output)}"


def _conversation(value: Any, known_texts: set[str]) -> Iterator[str]:
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
            elif kind == "text" and not _is_known(
                str(part.get("content", "")).strip(), known_texts
            ):
                yield f"- {role}: {part['content']}"


def _is_known(content: str, known_texts: set[str]) -> bool:
    """Whether a text is shown elsewhere, whole or as most of what is shown there."""
    return not content or any(
        content in text and len(text) < 2 * len(content) for text in known_texts
    )


def _called(name: Any, arguments: Any) -> str:
    return f"- calls tool {name}({_plain(arguments)})"


def _returned(result: Any) -> str:
    return f"{RETURNED}{_plain(result)}"


def _plain(value: Any) -> str:
    """A captured value: JSON strings are decoded, other JSON is normalised."""
    if isinstance(value, str):
        decoded = decoded_json(value)
        if decoded is None:
            return value
        return _plain(decoded)  # what a tool returns may be JSON in a JSON string
    return text_of(value)


def entries_in(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, which may be JSON text; foreign data, so any field may be missing."""
    listed = decoded_json(value) if isinstance(value, str) else value
    return (
        [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    )


def decoded_json(text: str) -> Any:
    """A decoded JSON text; None if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
