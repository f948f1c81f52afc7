"""Requests of OpenAI's chat completions as requests of Anthropic's messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ratchet.observe.model_apis.bounded_json import mapping
from ratchet.server.gateway.translation.content import blocks_of, listed
from ratchet.server.gateway.translation.features import CHAT, Findings
from ratchet.server.gateway.translation.schemas import closed

_REFUSED_SAID = ("audio", "function_call")
_SAID = frozenset(
    {*("role", "name", "content", "refusal", "tool_calls"), *("thinking_blocks", *_REFUSED_SAID)}
)
_ODD_ID = re.compile(r"[^a-zA-Z0-9_-]")
_EFFORTS = {"minimal": "low"}
_NO_SCHEMA = {"type": "object", "properties": {}}


def message_request(request: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """The request to send; without `max_tokens` where the client sets none.

    Args:
        request: A request of chat completions.
        findings: Takes what has no equivalent.
    """
    CHAT.sort(request, findings)
    sent: dict[str, Any] = {"model": request.get("model")}
    limit = request.get("max_completion_tokens") or request.get("max_tokens")
    if limit is not None:
        sent["max_tokens"] = limit
    _add_messages(sent, listed(request.get("messages")), findings)
    _add_tools(sent, request, findings)
    stop = request.get("stop")
    if stop:
        sent["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    _add_output(sent, request, findings)
    _add_sampling(sent, request, findings)
    if request.get("stream"):
        sent["stream"] = True
    return sent


def _add_sampling(sent: dict[str, Any], request: Mapping[str, Any], findings: Findings) -> None:
    for key in ("temperature", "top_p"):
        value = request.get(key)
        # The default of both APIs is 1, and newer models accept no other value.
        if not isinstance(value, (int, float)) or value == 1:
            continue
        if value > 1:
            findings.leave_out(f"{key} above 1")
        elif "thinking" in sent and sent["thinking"]["type"] != "disabled":
            findings.leave_out(f"{key} of a model that thinks")
        elif "temperature" in sent:  # which excludes the other
            findings.leave_out(key)
        else:
            sent[key] = value


def _add_output(sent: dict[str, Any], request: Mapping[str, Any], findings: Findings) -> None:
    """Add the form of the answer, and the effort that goes into it."""
    output: dict[str, Any] = {}
    form = mapping(request.get("response_format"))
    if form.get("type") == "json_schema":
        schema = mapping(mapping(form.get("json_schema")).get("schema"))
        output["format"] = {"type": "json_schema", "schema": closed(schema, findings)}
    elif form.get("type") not in (None, "text"):
        advice = "describe the answer by a schema: the type json_schema"
        findings.refuse(f"response_format {form['type']}", advice)
    effort = request.get("reasoning_effort")
    if effort == "none":
        sent["thinking"] = {"type": "disabled"}
    elif effort:
        sent["thinking"] = {"type": "adaptive"}
        output["effort"] = _EFFORTS.get(str(effort), effort)
    if output:
        sent["output_config"] = output


def _add_messages(sent: dict[str, Any], messages: list[dict[str, Any]], findings: Findings) -> None:
    system: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []

    def add(role: str, blocks: list[dict[str, Any]]) -> None:
        if blocks and turns and turns[-1]["role"] == role:
            content = turns[-1]["content"]
            # Results of parallel calls must be in one turn, before all else.
            results = blocks[0]["type"] == "tool_result"
            at = _count_of_results(content) if results else len(content)
            content[at:at] = blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})

    for message in messages:
        role = message.get("role")
        if message.get("name"):
            findings.leave_out("name of a message")
        if role in ("system", "developer"):
            if turns:
                findings.leave_out("position of a system message after the first turn")
            system.extend(blocks_of(message.get("content"), findings))
        elif role == "user":
            add("user", blocks_of(message.get("content"), findings))
        elif role == "assistant":
            add("assistant", _said(message, findings))
        elif role == "tool":
            add("user", [_result(message, findings)])
        else:
            findings.refuse(f"messages with the role {str(role)[:40]}", "use the role tool")
    if turns and turns[-1]["role"] == "assistant":
        advice = "end with a user message"
        findings.refuse("a last message by the assistant, which the model would continue", advice)
    if system and not turns:  # there must be a turn
        findings.leave_out("role of the only message")
        add("user", system)
    elif system:
        sent["system"] = system
    sent["messages"] = turns


def _count_of_results(content: list[dict[str, Any]]) -> int:
    return sum(block["type"] == "tool_result" for block in content)


def _said(message: Mapping[str, Any], findings: Findings) -> list[dict[str, Any]]:
    """Blocks of what the model said."""
    for key in _REFUSED_SAID:
        if message.get(key):
            findings.refuse(f"{key} of an assistant's message", "use text and tool_calls")
    for key in message.keys() - _SAID:
        if message[key] and not (key == "reasoning_content" and "thinking_blocks" in message):
            findings.leave_out(f"{key} of an assistant's message")
    blocks = listed(message.get("thinking_blocks"))
    blocks.extend(blocks_of(message.get("content"), findings))
    blocks.extend(blocks_of(message.get("refusal") or "", findings))
    for call in listed(message.get("tool_calls")):
        function = mapping(call.get("function"))
        if "function" not in call:
            findings.refuse("calls of custom tools", "declare functions")
        arguments = str(function.get("arguments") or "{}")
        blocks.append(
            {
                "type": "tool_use",
                "id": _id(call.get("id")),
                "name": function.get("name"),
                "input": _input(arguments, findings),
            }
        )
    return blocks


def _input(arguments: str, findings: Findings) -> Any:
    """A call's arguments, byte for byte."""
    try:
        if isinstance(json.loads(arguments, parse_constant=_no_json), dict):
            return msgspec.Raw(arguments.encode())
    except (ValueError, RecursionError):
        pass
    # The model wrote them, and the agent cannot take them back.
    findings.leave_out("form of arguments that are not a JSON object")
    return {"arguments": arguments}


def _no_json(constant: str) -> None:
    """Refuse what Python reads beyond JSON: infinity and NaN."""
    raise ValueError(constant)


def _result(message: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    content = message.get("content")
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": _id(message.get("tool_call_id")),
    }
    if content:
        result["content"] = content if isinstance(content, str) else blocks_of(content, findings)
    return result


def _id(value: Any) -> str:
    """A call's id, in the characters that Anthropic accepts."""
    return _ODD_ID.sub("_", str(value or "_"))


def _add_tools(sent: dict[str, Any], request: Mapping[str, Any], findings: Findings) -> None:
    tools = []
    for tool in listed(request.get("tools")):
        function = mapping(tool.get("function"))
        if tool.get("type") != "function":
            findings.refuse(f"tools of the type {str(tool.get('type'))[:40]}", "declare functions")
            continue
        strict = function.get("strict") is True
        schema = mapping(function.get("parameters")) or _NO_SCHEMA
        converted = {
            "name": function.get("name"),
            "input_schema": closed(schema, findings) if strict else schema,
        }
        if function.get("description"):
            converted["description"] = function["description"]
        if strict:
            converted["strict"] = True
        tools.append(converted)
    choice = request.get("tool_choice")
    kind = choice if isinstance(choice, str) else mapping(choice).get("type")
    if kind == "allowed_tools":
        allowed = mapping(mapping(choice).get("allowed_tools"))
        names = {mapping(tool.get("function")).get("name") for tool in listed(allowed.get("tools"))}
        tools = [tool for tool in tools if tool["name"] in names]
        kind = allowed.get("mode")
    if not tools:
        _add_earlier_tools(sent)
        return
    sent["tools"] = tools
    converted_choice: dict[str, Any] | None = None
    if kind == "function":
        name = mapping(mapping(choice).get("function")).get("name")
        converted_choice = {"type": "tool", "name": name}
    elif kind in _CHOICES:
        converted_choice = {"type": _CHOICES[kind]}
    elif kind is not None:
        findings.refuse(f"tool_choice {str(kind)[:40]}", "use auto, required, none or a function")
    if request.get("parallel_tool_calls") is False and kind != "none":
        converted_choice = converted_choice or {"type": "auto"}
        converted_choice["disable_parallel_tool_use"] = True
    if converted_choice is not None:
        sent["tool_choice"] = converted_choice


def _add_earlier_tools(sent: dict[str, Any]) -> None:
    """Add the tools that were called before: Anthropic wants a declaration of each."""
    blocks = [block for turn in sent["messages"] for block in turn["content"]]
    names = dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use")
    if names:
        sent["tools"] = [{"name": name, "input_schema": _NO_SCHEMA} for name in names]
        sent["tool_choice"] = {"type": "none"}


_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
