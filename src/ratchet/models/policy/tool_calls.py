"""Tool calls in the text of an answer, and messages with tools for templates without tool
support."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

TOOL_CALL_START, TOOL_CALL_END = "<tool_call>", "</tool_call>"

Message = dict[str, Any]


class ParsedAnswer(msgspec.Struct, frozen=True):
    """An answer's text, and the tool calls in it."""

    content: str
    calls: list[Message]
    """As in OpenAI's API: id, type, function with name and arguments as JSON text."""


def parse_answer(text: str, tools: Sequence[Mapping[str, Any]]) -> ParsedAnswer:
    """Separate the tool calls of an answer from its text.

    Text that begins like a call but is not one stays text.

    Args:
        text: The answer.
        tools: The tools of the request; without any, nothing is a call.
    """
    if tools:
        names = {str(tool.get("function", {}).get("name")) for tool in tools}
        for parse in FORMATS:
            answer = parse(text, names)
            if answer is not None:
                return answer
    return ParsedAnswer(text, [])


def _hermes(text: str, names: set[str]) -> ParsedAnswer | None:
    """`<tool_call>{"name": …, "arguments": {…}}</tool_call>`, as Hermes and Qwen write it."""
    before, marker, after = text.partition(TOOL_CALL_START)
    if not marker:
        return None
    calls = []
    for part in after.split(TOOL_CALL_START):
        call = _call(part.partition(TOOL_CALL_END)[0], "arguments")
        if call is None:
            return None
        calls.append(call)
    return ParsedAnswer(before.strip(), calls)


def _bare(text: str, names: set[str]) -> ParsedAnswer | None:
    """`{"name": …, "parameters": {…}}` and nothing else, as Llama 3 writes it."""
    call = _call(text, "parameters") or _call(text, "arguments")
    if call is None or call["function"]["name"] not in names:
        return None
    return ParsedAnswer("", [call])


FORMATS: tuple[Callable[[str, set[str]], ParsedAnswer | None], ...] = (_hermes, _bare)
"""Tried in this order; each returns None if the text has no call of its format."""


def _call(text: str, key: str) -> Message | None:
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(decoded, dict) or not isinstance(decoded.get("name"), str):
        return None
    arguments = decoded.get(key, {} if key == "arguments" else None)
    if isinstance(arguments, str):
        encoded = arguments
    elif isinstance(arguments, dict):
        encoded = json.dumps(arguments, ensure_ascii=False)
    else:
        return None
    return {
        "id": f"call_{secrets.token_hex(12)}",
        "type": "function",
        "function": {"name": decoded["name"], "arguments": encoded},
    }


def in_text(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Messages with tools, calls and results as texts, in the format of Hermes.

    For a template that knows no tools: the tools are listed in the system message, calls are
    written as the model should write them, results come from the user.

    Args:
        messages: The messages, with arguments of calls as objects.
        tools: The tools.
    """
    out: list[Message] = []
    for message in messages:
        content = message.get("content") or ""
        if message["role"] == "tool":
            text = f"<tool_response>\n{content}\n</tool_response>"
            if (
                out
                and out[-1]["role"] == "user"
                and out[-1]["content"].endswith("</tool_response>")
            ):
                out[-1] = {"role": "user", "content": f"{out[-1]['content']}\n{text}"}
            else:
                out.append({"role": "user", "content": text})
            continue
        for call in message.get("tool_calls") or ():
            function = {key: call["function"].get(key) for key in ("name", "arguments")}
            content += (
                f"\n{TOOL_CALL_START}\n{json.dumps(function, ensure_ascii=False)}\n{TOOL_CALL_END}"
            )
        out.append({"role": message["role"], "content": content.strip("\n")})
    if not tools:
        return out
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    about = (
        f"You may call these functions:\n<tools>\n{listed}\n</tools>\nTo call one, answer with:\n"
        f'{TOOL_CALL_START}\n{{"name": <its name>, "arguments": <an object>}}\n{TOOL_CALL_END}'
    )
    if out and out[0]["role"] == "system":
        first = {"role": "system", "content": f"{out[0]['content']}\n\n{about}"}
        return [first, *out[1:]]
    return [{"role": "system", "content": about}, *out]
