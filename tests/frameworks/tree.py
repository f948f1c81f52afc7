"""What of an agent's run is in its spans: agent, calls of the model, call of the tool."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ratchet.types import Span

COLUMNS = ("agent", "LLM call", "messages", "model", "tokens", "tool arguments", "tool result")
"""What each framework is looked at for; the last column of the matrix is that of all in one
trace."""

QUESTION = "weather in Paris"
ANSWER = "18 C"
TOOL = "get_weather"

Check = dict[str, str]
"""What is missing, by column; empty for what is there."""


def look(spans: Sequence[Span], calls: Sequence[tuple[int, int]]) -> Check:
    """What is there of an agent's run, and what is missing.

    Args:
        spans: All spans that its process wrote.
        calls: Tokens of the calls that the model got: in, out.
    """
    by_id = {span.span_id: span for span in spans}
    agents = [span for span in spans if _operation(span) == "invoke_agent"]
    models = [span for span in spans if _operation(span) == "chat"]
    tools = [
        span
        for span in spans
        if _operation(span) == "execute_tool"
        and TOOL in str(span.attributes.get("gen_ai.tool.name"))
    ]
    found: Check = dict.fromkeys(COLUMNS, "")
    if not agents:
        found["agent"] = "no span of an agent"
    elif not all(span.attributes.get("gen_ai.agent.name") for span in agents):
        found["agent"] = "an agent without a name"
    elif not all(_has_above(span, agents, by_id) for span in models + tools):
        found["agent"] = "calls that do not stand under it"
    if len(models) != len(calls):
        found["LLM call"] = f"{len(models)} spans for {len(calls)} calls"
    found["messages"] = _messages(models)
    if not models or not all(span.attributes.get("gen_ai.request.model") for span in models):
        found["model"] = "missing"
    said = sorted(_tokens(span) for span in models)
    if said != sorted(calls):
        found["tokens"] = f"{said} instead of {sorted(calls)}"
    if len(tools) != 1:
        found["tool arguments"] = found["tool result"] = f"{len(tools)} spans for one call"
    else:
        arguments = tools[0].attributes.get("gen_ai.tool.call.arguments")
        if _decoded(arguments) != {"city": "Paris"}:
            found["tool arguments"] = f"{arguments!r}"
        result = tools[0].attributes.get("gen_ai.tool.call.result")
        if _decoded(result) != ANSWER:
            found["tool result"] = f"{result!r}"
    return found


def in_one_trace(spans: Sequence[Span]) -> bool:
    """Whether all spans belong together, and have one root."""
    ids = {span.span_id for span in spans}
    roots = [span for span in spans if span.parent_id not in ids]
    return len({span.trace_id for span in spans}) == 1 and len(roots) == 1


def _messages(models: Sequence[Span]) -> str:
    if not models:
        return "missing"
    ordered = sorted(models, key=lambda span: span.start_ns)
    for span in ordered:
        for key in ("gen_ai.input.messages", "gen_ai.output.messages"):
            listed = _decoded(span.attributes.get(key))
            if not isinstance(listed, list) or not all(
                isinstance(each, dict) and each.get("role") and isinstance(each.get("parts"), list)
                for each in listed
            ):
                return f"{key} of {span.name}: {span.attributes.get(key)!r}"
    first, last = ordered[0].attributes, ordered[-1].attributes
    if QUESTION not in str(first["gen_ai.input.messages"]):
        return "the question is missing"
    if TOOL not in str(first["gen_ai.output.messages"]):
        return "the model's wish for a tool is missing"
    if ANSWER not in str(last["gen_ai.input.messages"]):
        return "what the tool said is missing in what the model got"
    if ANSWER not in str(last["gen_ai.output.messages"]):
        return "the answer is missing"
    return ""


def _operation(span: Span) -> Any:
    return span.attributes.get("gen_ai.operation.name")


def _tokens(span: Span) -> tuple[int, int]:
    said = span.attributes
    return said.get("gen_ai.usage.input_tokens", 0), said.get("gen_ai.usage.output_tokens", 0)


def _has_above(span: Span, agents: Sequence[Span], by_id: dict[str, Span]) -> bool:
    above = {each.span_id for each in agents}
    parent = span.parent_id
    for _ in range(len(by_id)):
        if parent is None or parent in above:
            return parent is not None
        parent = by_id[parent].parent_id if parent in by_id else None
    return False


def _decoded(value: Any) -> Any:
    try:
        return json.loads(value)
    except (TypeError, ValueError):
        return value
