"""Requests of OpenAI's responses as requests of its chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.observe.model_apis.bounded_json import mapping
from ratchet.server.gateway.translation.content import listed
from ratchet.server.gateway.translation.features import RESPONSES, Findings

THOUGHT = "ratchet.thinking:"
REDACTED = "ratchet.redacted_thinking:"
"""Prefixes of the encrypted content of reasoning that came from Anthropic, with a signature or
all of it encrypted. Another model's reasoning would be refused there.
"""

_COPIED = {
    "model": "model",
    "stream": "stream",
    "temperature": "temperature",
    "top_p": "top_p",
    "parallel_tool_calls": "parallel_tool_calls",
    "max_output_tokens": "max_completion_tokens",
}


def chat_request_of_response(request: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """The request of chat completions, whose assistant messages may have `thinking_blocks`.

    Args:
        request: A request of responses.
        findings: Takes what has no equivalent.
    """
    RESPONSES.sort(request, findings)
    chat = {new: request[old] for old, new in _COPIED.items() if request.get(old) is not None}
    messages: list[dict[str, Any]] = []
    if request.get("instructions"):
        messages.append({"role": "system", "content": request["instructions"]})
    given = request.get("input")
    if isinstance(given, str):
        messages.append({"role": "user", "content": given})
    for item in listed(given):
        _add(messages, item, findings)
    chat["messages"] = messages
    text = mapping(request.get("text"))
    form = mapping(text.get("format"))
    if form.get("type") == "json_schema":
        chat["response_format"] = {"type": "json_schema", "json_schema": form}
    elif form:
        chat["response_format"] = form
    if text.get("verbosity") not in (None, "medium"):
        findings.refuse(f"text.verbosity={text['verbosity']}")
    reasoning = mapping(request.get("reasoning"))
    if reasoning.get("effort"):
        chat["reasoning_effort"] = reasoning["effort"]
    if reasoning.get("mode") not in (None, "standard"):
        findings.refuse(f"reasoning.mode={reasoning['mode']}")
    if reasoning.get("context") not in (None, "auto"):
        findings.leave_out("reasoning.context")
    if request.get("tools"):
        chat["tools"] = [
            {"type": "function", "function": tool} if tool.get("type") == "function" else tool
            for tool in listed(request["tools"])
        ]
    choice = request.get("tool_choice")
    if choice is not None:
        chat["tool_choice"] = _choice(choice)
    if "message.output_text.logprobs" in str(request.get("include")):
        findings.refuse("include=message.output_text.logprobs")
    return chat


def _choice(choice: Any) -> Any:
    kind = mapping(choice).get("type")
    if kind == "function":
        return {"type": "function", "function": {"name": choice.get("name")}}
    if kind == "allowed_tools":
        tools = [{"type": "function", "function": tool} for tool in listed(choice.get("tools"))]
        return {"type": kind, "allowed_tools": {"mode": choice.get("mode"), "tools": tools}}
    return choice


def _add(messages: list[dict[str, Any]], item: dict[str, Any], findings: Findings) -> None:
    """Add an item of the input to the messages."""
    kind = item.get("type", "message")
    if kind == "message":
        content = item.get("content")
        parts = content if isinstance(content, str) else _parts(content, findings)
        if item.get("role") == "assistant":
            _turn(messages, "content")["content"] = parts
        else:
            messages.append({"role": item.get("role"), "content": parts})
    elif kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        _turn(messages).setdefault("tool_calls", []).append(call)
    elif kind == "function_call_output":
        output = item.get("output")
        content = output if isinstance(output, str) else _parts(output, findings)
        call_id = item.get("call_id")
        messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
    elif kind == "reasoning":
        block = _thought(item)
        if block is None:
            findings.leave_out("reasoning of another model")
        else:
            _turn(messages, "content").setdefault("thinking_blocks", []).append(block)
    else:
        advice = "send messages, function calls and their outputs"
        findings.refuse(f"input of the type {str(kind)[:40]}", advice)


def _turn(messages: list[dict[str, Any]], but: str = "") -> dict[str, Any]:
    """The assistant's turn to add to: a new turn if the last one already has the key `but`."""
    last = messages[-1] if messages else {}
    # What follows calls belongs to the next turn.
    if last.get("role") != "assistant" or (but and (but in last or "tool_calls" in last)):
        messages.append({"role": "assistant"})
    return messages[-1]


def _thought(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """The block that a reasoning item was, if it came from Anthropic."""
    encrypted = item.get("encrypted_content")
    if not isinstance(encrypted, str):
        return None
    if encrypted.startswith(REDACTED):
        return {"type": "redacted_thinking", "data": encrypted.removeprefix(REDACTED)}
    if not encrypted.startswith(THOUGHT):
        return None
    thinking = "\n\n".join(str(part.get("text") or "") for part in listed(item.get("summary")))
    signature = encrypted.removeprefix(THOUGHT)
    return {"type": "thinking", "thinking": thinking, "signature": signature}


def _parts(content: Any, findings: Findings) -> list[dict[str, Any]]:
    """Parts of a chat message."""
    parts = []
    for part in listed(content):
        kind = part.get("type")
        if kind in ("input_text", "output_text"):
            parts.append({"type": "text", "text": part.get("text")})
        elif kind == "refusal":
            parts.append(part)
        elif kind == "input_image" and part.get("image_url"):
            image = {"url": part["image_url"], "detail": part.get("detail")}
            parts.append({"type": "image_url", "image_url": image})
        elif kind == "input_image":
            findings.refuse("an image by its id", "send it as `image_url`")
        elif kind == "input_file":
            parts.append({"type": "file", "file": part})
        else:
            findings.refuse(f"content of the type {str(kind)[:40]}", "send text, images or PDFs")
    return parts
