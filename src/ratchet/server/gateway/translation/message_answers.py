"""Answers of OpenAI's chat completions as answers of Anthropic's messages, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ratchet.observe.model_apis.bounded_json import mapping
from ratchet.server.gateway.translation.chat_answers import ENDED_EARLY
from ratchet.server.gateway.translation.content import listed
from ratchet.server.gateway.translation.errors import message_error
from ratchet.server.gateway.translation.part_sequence import AnswerPart, PartSequence, Step
from ratchet.server.gateway.translation.usage import STOP_REASONS, message_usage

SIGNATURE = "ratchet"
"""Signature of thinking that is not Anthropic's. Clients send back what is signed as a block, which
the next request leaves out, and what is not as text, which would tell the model its own thoughts.
"""

_REASONING = ("reasoning_content", "reasoning")


def message_of(completion: Mapping[str, Any], thinks: bool) -> dict[str, Any]:
    """A message.

    Args:
        completion: A whole answer of chat completions.
        thinks: Whether the client asked for thinking: without, Anthropic's answers have none.

    Raises:
        ValueError: It is not a chat completion.
    """
    choices = listed(completion.get("choices"))
    if not choices or not isinstance(choices[0].get("message"), dict):
        raise ValueError("it has no `choices` with a `message`")
    said = _shown(choices[0]["message"], thinks)
    sequence = PartSequence()
    calls = [{**call, "index": index} for index, call in enumerate(listed(said.get("tool_calls")))]
    steps = [*sequence.add({**said, "tool_calls": calls}), *sequence.end()]
    parts = [part for step, part, _ in steps if step == "stop"]
    return {
        **_head(completion),
        "content": [{**_block(part), **_whole(part)} for part in parts],
        "stop_reason": _reason(choices[0].get("finish_reason"), bool(calls)),
        "stop_sequence": None,
        "usage": message_usage(mapping(completion.get("usage"))),
    }


def _head(completion: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": completion.get("id") or "",
        "type": "message",
        "role": "assistant",
        "model": completion.get("model") or "",
    }


def _reason(finish: Any, calls: bool) -> str:
    # Compatible servers say `stop` after calls, too.
    reason = STOP_REASONS.get(str(finish), "end_turn")
    return "tool_use" if calls and reason == "end_turn" else reason


def _block(part: AnswerPart) -> dict[str, Any]:
    """The block that a part is, before its text."""
    if part.kind == "call":
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
    if part.kind == "reasoning":
        return {"type": "thinking", "thinking": "", "signature": ""}
    return {"type": "text", "text": ""}


def _whole(part: AnswerPart) -> dict[str, Any]:
    if part.kind == "reasoning":
        return {"thinking": part.text, "signature": SIGNATURE}
    if part.kind != "call":
        return {"text": part.text}
    try:
        arguments = json.loads(part.text or "{}")
    except (ValueError, RecursionError):
        arguments = None
    # Anthropic's clients have objects only; what the model wrote instead is theirs to judge.
    return {"input": arguments if isinstance(arguments, dict) else {"arguments": part.text}}


def _shown(delta: Mapping[str, Any], thinks: bool) -> dict[str, Any]:
    return {key: value for key, value in delta.items() if thinks or key not in _REASONING}


class MessageEvents:
    """Turns the chunks of a streamed chat completion into events of a message.

    Args:
        thinks: Whether the client asked for thinking.
    """

    def __init__(self, thinks: bool = False) -> None:
        self._thinks = thinks
        self._sequence = PartSequence()
        self._usage: dict[str, Any] = {}
        self._finish: Any = None
        self._calls = False
        self._begun = False
        self._over = False

    def add(self, chunk: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Take a chunk; return the events to send."""
        if self._over:
            return []
        if chunk.get("error"):
            self._over = True
            return [message_error(chunk, 0)]
        events: list[dict[str, Any]] = []
        # Some servers begin with a chunk about the request, which names no answer yet.
        if not self._begun and chunk.get("choices"):
            self._begun = True
            # The usage comes last.
            usage = {"input_tokens": 0, "output_tokens": 0}
            head = {"stop_reason": None, "stop_sequence": None, "usage": usage}
            events.append(
                {"type": "message_start", "message": {**_head(chunk), "content": [], **head}}
            )
        if chunk.get("usage"):
            self._usage = mapping(chunk["usage"])
        for choice in listed(chunk.get("choices"))[:1]:
            delta = _shown(mapping(choice.get("delta")), self._thinks)
            self._calls = self._calls or bool(delta.get("tool_calls"))
            self._finish = choice.get("finish_reason") or self._finish
            events.extend(_told(self._sequence.add(delta)))
        return events

    def end(self) -> list[dict[str, Any]]:
        """The upstream has sent everything: an error unless the model has finished."""
        if self._over:
            return []
        self._over = True
        if self._finish is None:
            return [message_error({"error": {"message": ENDED_EARLY}}, 0)]
        delta = {"stop_reason": _reason(self._finish, self._calls), "stop_sequence": None}
        return [
            *_told(self._sequence.end()),
            {"type": "message_delta", "delta": delta, "usage": message_usage(self._usage)},
            {"type": "message_stop"},
        ]


_DELTAS = {
    "call": ("input_json_delta", "partial_json"),
    "reasoning": ("thinking_delta", "thinking"),
    "text": ("text_delta", "text"),
    "refusal": ("text_delta", "text"),
}


def _told(steps: list[Step]) -> list[dict[str, Any]]:
    events = []
    for step in steps:
        kind, part, _ = step
        if kind == "stop" and part.kind == "reasoning":
            delta = {"type": "signature_delta", "signature": SIGNATURE}
            events.append({"type": "content_block_delta", "delta": delta, "index": part.position})
        events.append(_event(step))
    return events


def _event(step: Step) -> dict[str, Any]:
    kind, part, text = step
    if kind == "start":
        event = {"type": "content_block_start", "content_block": _block(part)}
    elif kind == "more":
        delta, key = _DELTAS[part.kind]
        event = {"type": "content_block_delta", "delta": {"type": delta, key: text}}
    else:
        event = {"type": "content_block_stop"}
    return {**event, "index": part.position}
