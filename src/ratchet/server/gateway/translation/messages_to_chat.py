"""Requests of Anthropic's messages as requests of OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.observe.model_apis.bounded_json import mapping
from ratchet.server.gateway.translation.content import json_text, listed, parts_of, simplest
from ratchet.server.gateway.translation.features import MESSAGES, Findings
from ratchet.server.gateway.translation.schemas import is_strict

MAX_STOPS = 4
"""Maximum number of stop sequences that OpenAI accepts."""

_THOUGHTS = ("thinking", "redacted_thinking")
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def chat_request(request: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """The request to send.

    Args:
        request: A request of messages.
        findings: Takes what has no equivalent.
    """
    MESSAGES.sort(request, findings)
    sent: dict[str, Any] = {"model": request.get("model")}
    messages: list[dict[str, Any]] = []
    if system := parts_of(request.get("system") or [], findings):
        messages.append({"role": "system", "content": simplest(system)})
    for message in listed(request.get("messages")):
        messages.extend(_messages(message, findings))
    if messages and messages[-1]["role"] == "assistant":
        advice = "end with a user message"
        findings.refuse("a last message by the assistant, to be continued", advice)
    sent["messages"] = messages
    if request.get("max_tokens") is not None:
        sent["max_completion_tokens"] = request["max_tokens"]
    for key in ("temperature", "top_p"):
        if request.get(key) is not None:
            sent[key] = request[key]
    stops = request.get("stop_sequences")
    if stops:
        sent["stop"] = stops
        if isinstance(stops, list) and len(stops) > MAX_STOPS:
            findings.refuse(f"{len(stops)} stop sequences", f"name {MAX_STOPS} at most")
    _add_tools(sent, request, findings)
    _add_output(sent, request, findings)
    if request.get("stream"):
        sent["stream"] = True
        sent["stream_options"] = {"include_usage": True}
    return sent


def _add_output(sent: dict[str, Any], request: Mapping[str, Any], findings: Findings) -> None:
    """Add the form of the answer, and the effort that goes into it."""
    output = mapping(request.get("output_config"))
    # The field of the beta, before it became part of `output_config`.
    form = mapping(output.get("format") or request.get("output_format"))
    if form:
        schema = mapping(form.get("schema"))
        strict = is_strict(schema)
        if not strict:
            findings.leave_out("enforcement of a schema with optional keys")
        named = {"name": "answer", "schema": schema, "strict": strict}
        sent["response_format"] = {"type": "json_schema", "json_schema": named}
    for key in output.keys() - {"format", "effort"}:
        if output[key] is not None:
            findings.refuse(f"output_config.{key}")
    thinking = mapping(request.get("thinking"))
    if thinking.get("type") == "disabled":
        sent["reasoning_effort"] = "none"
    elif output.get("effort"):
        sent["reasoning_effort"] = output["effort"]
    if thinking.get("type") not in (None, "disabled", "enabled", "adaptive"):
        findings.leave_out(f"thinking {str(thinking['type'])[:40]}")
    for key in ("budget_tokens", "display"):
        if thinking.get(key) is not None:
            findings.leave_out(f"thinking.{key}")


def _messages(message: Mapping[str, Any], findings: Findings) -> list[dict[str, Any]]:
    """The chat messages that stand for a message; tool results become messages of their own."""
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        return _said(content, findings)
    if role not in ("user", "system"):
        findings.refuse(f"messages with the role {str(role)[:40]}", "use user, assistant or system")
        return []
    results = [block for block in listed(content) if block.get("type") == "tool_result"]
    messages: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for result in results:
        answer, images = _result(result, findings)
        messages.append(answer)
        shown.extend(images)
    rest = content
    if isinstance(content, list):
        rest = [block for block in listed(content) if block.get("type") != "tool_result"]
    parts = [*shown, *parts_of(rest, findings)]
    if parts:
        messages.append({"role": role, "content": simplest(parts)})
    return messages


def _result(
    result: Mapping[str, Any], findings: Findings
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The message of a tool, and what it cannot hold: images and files."""
    if result.get("cache_control"):
        findings.leave_out("cache_control")
    parts = parts_of(result.get("content") or "", findings)
    texts = [part for part in parts if part["type"] == "text"]
    others = [part for part in parts if part["type"] != "text"]
    if others:
        findings.leave_out("place of a tool's images and files: they follow its result")
    if result.get("is_error"):
        text = str(texts[0]["text"]) if texts else ""
        if "error" not in text.lower():
            texts = [{"type": "text", "text": f"Error: {text}"}, *texts[1:]]
    answer = {
        "role": "tool",
        "tool_call_id": result.get("tool_use_id"),
        "content": simplest(texts),
    }
    return answer, others


def _said(content: Any, findings: Findings) -> list[dict[str, Any]]:
    """Chat messages with what the model said."""
    calls: list[dict[str, Any]] = []
    rest = content
    if isinstance(content, list):
        rest = []
        for block in listed(content):
            if block.get("type") == "tool_use":
                calls.append(_call(block, findings))
            elif block.get("type") in _THOUGHTS:
                findings.leave_out("thoughts of earlier turns")
            else:
                rest.append(block)
    parts = parts_of(rest, findings)
    if not parts and not calls:
        return []
    message: dict[str, Any] = {"role": "assistant", "content": simplest(parts) or None}
    if calls:
        message["tool_calls"] = calls
    return [message]


def _call(block: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    if block.get("cache_control"):
        findings.leave_out("cache_control")
    function = {"name": block.get("name"), "arguments": json_text(block.get("input") or {})}
    return {"id": block.get("id"), "type": "function", "function": function}


def _add_tools(sent: dict[str, Any], request: Mapping[str, Any], findings: Findings) -> None:
    tools = []
    for tool in listed(request.get("tools")):
        if tool.get("type") not in (None, "custom"):
            advice = "declare a tool with an `input_schema`, which the agent runs"
            findings.refuse(f"tools of the type {str(tool['type'])[:40]}", advice)
            continue
        for key in tool.keys() - {"type", "name", "description", "input_schema", "strict"}:
            findings.leave_out(f"{key} of a tool" if key != "cache_control" else key)
        schema = mapping(tool.get("input_schema"))
        function = {"name": tool.get("name"), "parameters": schema}
        if tool.get("description"):
            function["description"] = tool["description"]
        if tool.get("strict"):
            function["strict"] = is_strict(schema)
            if not function["strict"]:
                findings.leave_out("enforcement of a schema with optional keys")
        tools.append({"type": "function", "function": function})
    if not tools:
        return
    sent["tools"] = tools
    choice = mapping(request.get("tool_choice"))
    kind = choice.get("type")
    if kind == "tool":
        sent["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif kind in _CHOICES:
        sent["tool_choice"] = _CHOICES[kind]
    elif kind is not None:
        findings.refuse(f"tool_choice {str(kind)[:40]}", "use auto, any, none or a tool")
    if choice.get("disable_parallel_tool_use"):
        sent["parallel_tool_calls"] = False
