"""ShareGPT's conversations, in the form with tools that LLaMA-Factory reads.

Turns of `human` and `observation` alternate with turns of `gpt` and `function_call`. A learner
reads every turn of the latter as its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ratchet.weights.recorded_chat import ChatExample, ChatMessage, ChatPair, NotTrainable


def rows_of_example(example: ChatExample) -> Iterator[dict[str, Any]]:
    """One line for a conversation.

    Raises:
        NotTrainable: The format cannot say it.
    """
    learned = set(example.learned)
    if any(m["role"] == "assistant" and n not in learned for n, m in enumerate(example.messages)):
        raise NotTrainable("in ShareGPT's format every answer in the prompt is learned")
    turns, system = _turns(example.messages)
    yield {"conversations": turns, **system, **_tools(example)}


def rows_of_pair(pair: ChatPair) -> Iterator[dict[str, Any]]:
    """One line for a pair.

    Raises:
        NotTrainable: The format cannot say it.
    """
    turns, system = _turns(pair.messages)
    yield {
        "conversations": turns,
        "chosen": _turn(pair.chosen),
        "rejected": _turn(pair.rejected),
        **system,
        **_tools(pair),
    }


def _turns(messages: Sequence[ChatMessage]) -> tuple[list[dict[str, str]], dict[str, str]]:
    turns: list[dict[str, str]] = []
    system: list[str] = []
    results: list[str] = []
    for message in messages:
        if message["role"] in ("system", "developer"):
            if turns:
                raise NotTrainable("ShareGPT allows no system message within a conversation")
            system.append(message["content"])
            continue
        if message["role"] == "tool":
            results.append(message["content"])
            if len(results) > 1:  # of parallel calls
                turns[-1] = {"from": "observation", "value": msgspec.json.encode(results).decode()}
            else:
                turns.append({"from": "observation", "value": message["content"]})
            continue
        results = []
        turns.append(_turn(message))
    for place, turn in enumerate(turns):
        if (turn["from"] in ("gpt", "function_call")) is (place % 2 == 0):
            raise NotTrainable("its turns do not alternate, which ShareGPT requires")
    return turns, {"system": "\n\n".join(system)} if system else {}


def _turn(message: ChatMessage) -> dict[str, str]:
    calls = message.get("tool_calls")
    if not calls:
        who = "gpt" if message["role"] == "assistant" else "human"
        return {"from": who, "value": message["content"]}
    if message.get("content"):
        raise NotTrainable("ShareGPT allows no answer with both a text and a tool call")
    functions = [
        {
            "name": call["function"]["name"],
            "arguments": msgspec.json.decode(call["function"]["arguments"]),
        }
        for call in calls
    ]
    value = msgspec.json.encode(functions if len(functions) > 1 else functions[0]).decode()
    return {"from": "function_call", "value": value}


def _tools(item: ChatExample | ChatPair) -> dict[str, str]:
    if not item.tools:
        return {}
    return {"tools": msgspec.json.encode([tool["function"] for tool in item.tools]).decode()}
