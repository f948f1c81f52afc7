"""TRL's conversational datasets: prompt and completion, or prompt, chosen and rejected.

Source: `docs/source/dataset_formats.md` of TRL. One line for each answer: TRL learns all of a
completion, and a conversation has messages that the model did not write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ratchet.weights.recorded_chat import ChatExample, ChatMessage, ChatPair


def rows_of_example(example: ChatExample) -> Iterator[dict[str, Any]]:
    """A line for each answer that is learned."""
    for at in example.learned:
        yield {
            "prompt": [_message(one) for one in example.messages[:at]],
            "completion": [_message(example.messages[at])],
            **_tools(example),
        }


def rows_of_pair(pair: ChatPair) -> Iterator[dict[str, Any]]:
    """One line for a pair."""
    yield {
        "prompt": [_message(one) for one in pair.messages],
        "chosen": [_message(pair.chosen)],
        "rejected": [_message(pair.rejected)],
        **_tools(pair),
    }


def _message(message: ChatMessage) -> ChatMessage:
    """A message as chat templates read it: arguments as an object, not as text."""
    made = {**message, "content": message.get("content") or ""}
    if "tool_calls" in made:
        made["tool_calls"] = [
            {
                "type": "function",
                "function": {
                    "name": call["function"]["name"],
                    "arguments": msgspec.json.decode(call["function"]["arguments"]),
                },
            }
            for call in made["tool_calls"]
        ]
    return made


def _tools(item: ChatExample | ChatPair) -> dict[str, Any]:
    return {"tools": list(item.tools)} if item.tools else {}
