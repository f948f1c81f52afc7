"""Removes what frameworks wrap around names, arguments and results in their spans."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ratchet.observe.dialects import messages as form

_METHOD = re.compile(
    r"\.(run|run_stream|kickoff|_execute_core|on_messages_stream|forward|__call__)\Z"
)
"""Method names that instrumentors append to the name of an agent or tool."""

_AGENTS = re.compile(r"LangGraph|(Re|Code)Act\.forward|\w*Agent\.run|AgentWorkflow\.run")
"""Names of plain steps of LangGraph, DSPy and LlamaIndex that are in fact the run of an agent."""

_CALL = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})


def is_agent(name: str) -> bool:
    """Whether a span with this name is the run of an agent, although its kind says otherwise."""
    return _AGENTS.fullmatch(name) is not None


def bare_name(name: str) -> str:
    """The name of an agent or a tool, without the method's name."""
    return _METHOD.sub("", name) or name


def arguments(value: Any, declared: bool) -> str:
    """A tool's arguments as JSON text, without the framework's wrapper.

    Args:
        value: The attribute.
        declared: Whether the span declares a text value to be JSON.
    """
    wrapper = form.decoded(value)
    if not isinstance(wrapper, dict):
        return form.as_json(value, declared)
    inner = wrapper.get("kwargs")
    if isinstance(inner, dict) and wrapper.keys() <= _CALL and not wrapper.get("args"):
        return form.json_text(inner)
    return form.as_json(value)


def answers(attributes: Mapping[str, Any], number: int) -> list[form.Part]:
    """Tool results of a message, which AutoGen's instrumentation writes to other attributes.

    Args:
        attributes: Attributes of the span.
        number: Index of the message.
    """
    results: list[form.Part] = []
    while True:
        key = f"llm.input_messages.{number}.function.{len(results)}"
        function_result = form.decoded(attributes.get(key))
        if not isinstance(function_result, dict):
            return results
        results.append(
            form.tool_result(function_result.get("call_id"), function_result.get("content"))
        )


def result(value: Any, declared: bool) -> str:
    """A tool's result as JSON text, without the message that wraps it.

    Args:
        value: The attribute.
        declared: Whether the span declares a text value to be JSON.
    """
    wrapper = form.decoded(value)
    if isinstance(wrapper, dict):
        data = wrapper.get("data")
        if wrapper.get("type") == "tool" and isinstance(data, dict) and "content" in data:
            return form.json_text(data["content"])  # LangChain
        if "raw_output" in wrapper and "tool_name" in wrapper:
            return form.json_text(wrapper["raw_output"])  # LlamaIndex
        return form.as_json(value)
    # smolagents encodes a text as JSON without declaring it.
    return form.as_json(value, declared or (isinstance(wrapper, str) and wrapper is not value))
