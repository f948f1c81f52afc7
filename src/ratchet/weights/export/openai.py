"""OpenAI's fine-tuning files, which Azure, Fireworks and others read too.

Source: the guides to supervised fine-tuning and to direct preference optimization of OpenAI's
documentation. An assistant's message with `weight` 0 is read and not learned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ratchet.weights.recorded_chat import ChatExample, ChatPair


def rows_of_example(example: ChatExample) -> Iterator[dict[str, Any]]:
    """One line for a conversation."""
    learned = set(example.learned)
    messages = [
        {**message, "weight": 0}
        if message["role"] == "assistant" and at not in learned
        else message
        for at, message in enumerate(example.messages)
    ]
    yield {"messages": messages, **_tools(example)}


def rows_of_pair(pair: ChatPair) -> Iterator[dict[str, Any]]:
    """One line for a pair."""
    yield {
        "input": {"messages": list(pair.messages), **_tools(pair)},
        "preferred_output": [pair.chosen],
        "non_preferred_output": [pair.rejected],
    }


def _tools(item: ChatExample | ChatPair) -> dict[str, Any]:
    return {"tools": list(item.tools)} if item.tools else {}
