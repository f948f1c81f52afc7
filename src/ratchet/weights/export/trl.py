"""TRL's conversational datasets: prompt and completion, or prompt, chosen and rejected.

Source: `docs/source/dataset_formats.md` of TRL. One line for each answer: TRL learns all of a
completion, and a conversation has messages that the model did not write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ratchet.weights.recorded_chat import ChatExample, ChatPair
from ratchet.weights.rendered import template_message


def rows_of_example(example: ChatExample) -> Iterator[dict[str, Any]]:
    """A line for each answer that is learned."""
    for at in example.learned:
        yield {
            "prompt": [template_message(message) for message in example.messages[:at]],
            "completion": [template_message(example.messages[at])],
            **_tools(example),
        }


def rows_of_pair(pair: ChatPair) -> Iterator[dict[str, Any]]:
    """The line for a pair."""
    yield {
        "prompt": [template_message(message) for message in pair.messages],
        "chosen": [template_message(pair.chosen)],
        "rejected": [template_message(pair.rejected)],
        **_tools(pair),
    }


def _tools(item: ChatExample | ChatPair) -> dict[str, Any]:
    return {"tools": list(item.tools)} if item.tools else {}
