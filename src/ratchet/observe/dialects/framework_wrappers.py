"""What frameworks wrap around the names, arguments and results that their spans tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ratchet.observe.dialects import messages as form

_METHOD = re.compile(
    r"\.(run|run_stream|kickoff|_execute_core|on_messages_stream|forward|__call__)\Z"
)
"""Methods that instrumentors put behind the name of the agent or tool."""

_AGENTS = re.compile(r"LangGraph|(Re|Code)Act\.forward|\w*Agent\.run|AgentWorkflow\.run")
"""Spans that are told as steps like any other and are the run of an agent: of LangGraph, DSPy and
LlamaIndex."""

_CALL = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})


def is_agent(name: str) -> bool:
    """Whether a span of this name is the run of an agent, though its kind does not say so."""
    return _AGENTS.fullmatch(name) is not None


def bare_name(name: str) -> str:
    """The name of an agent or a tool, without the method that was called on it."""
    return _METHOD.sub("", name) or name


def arguments(value: Any, declared: bool) -> str:
    """A tool's arguments as JSON text, without the call around them.

    Args:
        value: The attribute.
        declared: Whether a text is said to be JSON.
    """
    said = form.decoded(value)
    if not isinstance(said, dict):
        return form.as_json(value, declared)
    inner = said.get("kwargs")
    if isinstance(inner, dict) and said.keys() <= _CALL and not said.get("args"):
        return form.json_text(inner)
    return form.as_json(value)


def answers(attributes: Mapping[str, Any], number: int) -> list[form.Part]:
    """Parts that tools answered, of a message that AutoGen's instrumentation writes elsewhere.

    Args:
        attributes: Those of the span.
        number: The message's.
    """
    found: list[form.Part] = []
    while True:
        key = f"llm.input_messages.{number}.function.{len(found)}"
        said = form.decoded(attributes.get(key))
        if not isinstance(said, dict):
            return found
        found.append(form.tool_result(said.get("call_id"), said.get("content")))


def result(value: Any, declared: bool) -> str:
    """A tool's result as JSON text, without the message around it.

    Args:
        value: The attribute.
        declared: Whether a text is said to be JSON.
    """
    said = form.decoded(value)
    if isinstance(said, dict):
        data = said.get("data")
        if said.get("type") == "tool" and isinstance(data, dict) and "content" in data:
            return form.json_text(data["content"])  # LangChain
        if "raw_output" in said and "tool_name" in said:
            return form.json_text(said["raw_output"])  # LlamaIndex
        return form.as_json(value)
    # A text in quotation marks is one that was made JSON and not declared: smolagents.
    return form.as_json(value, declared or (isinstance(said, str) and said is not value))
