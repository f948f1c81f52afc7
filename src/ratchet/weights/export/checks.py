"""Checks of conversations: finds what every service and library refuses, before it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ratchet.weights.recorded_chat import ChatExample, ChatMessage, ChatPair


def fault_of_example(example: ChatExample) -> str:
    """Why a conversation cannot be learned from; empty if it can."""
    messages = example.messages
    if not example.learned:
        return "it has no answer from the model"
    if example.learned[-1] != len(messages) - 1:
        return "its last message is not an answer from the model"
    if any(messages[at]["role"] != "assistant" for at in example.learned):
        return "not all messages to learn are the assistant's"
    return _fault_of(messages, example.tools)


def fault_of_pair(pair: ChatPair) -> str:
    """Why a pair cannot be learned from; empty if it can."""
    for answer in (pair.chosen, pair.rejected):
        if answer["role"] != "assistant":
            return "an answer of the pair is not an assistant message"
        if fault := _fault_of((*pair.messages, answer), pair.tools):
            return fault
    return "both answers of the pair are the same" if pair.chosen == pair.rejected else ""


def _fault_of(messages: Sequence[ChatMessage], tools: Sequence[dict[str, Any]]) -> str:
    if not any(message["role"] == "user" for message in messages):
        return "it has no user message"
    tool_names = {tool["function"]["name"] for tool in tools}
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return "it has a tool result without a call"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return "it has a tool call without a result"
        calls = message.get("tool_calls") or ()
        if not calls and not str(message.get("content") or "").strip():
            return f"it has an empty {message['role']} message"
        for call in calls:
            if fault := _fault_of_call(call, tool_names):
                return fault
            open_calls.append(call["id"])
        if len(set(open_calls)) < len(open_calls):
            return "it has two tool calls with the same id"
    return ""


def _fault_of_call(call: dict[str, Any], tool_names: set[str]) -> str:
    if call["function"]["name"] not in tool_names:
        return "it calls a tool that its request does not define"
    try:
        arguments = msgspec.json.decode(call["function"]["arguments"])
    except msgspec.DecodeError:
        return "it has a tool call whose arguments are not JSON"
    return "" if isinstance(arguments, dict) else "it has a tool call without named arguments"
