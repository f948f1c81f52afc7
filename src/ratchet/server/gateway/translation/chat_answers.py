"""Answers of Anthropic's messages as answers of OpenAI's chat completions, whole and streamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.observe.model_apis.bounded_json import mapping
from ratchet.server.gateway.translation.content import json_text, listed
from ratchet.server.gateway.translation.errors import chat_error
from ratchet.server.gateway.translation.usage import FINISH_REASONS, chat_usage

ENDED_EARLY = "The upstream ended its answer early."

_THOUGHTS = ("thinking", "redacted_thinking")


def completion_of(message: Mapping[str, Any], created: int) -> dict[str, Any]:
    """A chat completion.

    Args:
        message: A whole answer of messages.
        created: Time of the answer in Unix seconds.

    Raises:
        ValueError: It is not a message.
    """
    if not isinstance(message.get("content"), list):
        raise ValueError("it has no `content`")
    blocks = listed(message["content"])
    said: dict[str, Any] = {"role": "assistant", "content": _joined(blocks, "text") or None}
    thoughts = [block for block in blocks if block.get("type") in _THOUGHTS]
    if thoughts:
        said["reasoning_content"] = _joined(thoughts, "thinking")
        said["thinking_blocks"] = thoughts
    calls = [
        {
            "id": block.get("id"),
            "type": "function",
            "function": {
                "name": block.get("name"),
                "arguments": json_text(block.get("input") or {}),
            },
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    if calls:
        said["tool_calls"] = calls
    reason = message.get("stop_reason")
    said["refusal"] = _refusal(message)
    choice = {
        "index": 0,
        "message": said,
        "finish_reason": FINISH_REASONS.get(str(reason), "stop"),
        "logprobs": None,
    }
    usage = mapping(message.get("usage"))
    return {
        "id": message.get("id"),
        "object": "chat.completion",
        "created": created,
        "model": message.get("model"),
        "choices": [choice],
        **({"usage": chat_usage(usage)} if usage else {}),
    }


def _joined(blocks: list[dict[str, Any]], key: str) -> str:
    return "".join(str(block.get(key) or "") for block in blocks if block.get("type") == key)


def _refusal(message: Mapping[str, Any]) -> str | None:
    """Why the model refused, if the provider says it."""
    explanation = mapping(message.get("stop_details")).get("explanation")
    return explanation if isinstance(explanation, str) else None


class ChatChunks:
    """Turns the events of a streamed message into chunks of a chat completion.

    Args:
        created: Time of the answer in Unix seconds.
        with_usage: Whether the client asked for a chunk of its own with the usage.
    """

    def __init__(self, created: int, with_usage: bool) -> None:
        self._head: dict[str, Any] = {
            "id": "",
            "object": "chat.completion.chunk",
            "created": created,
            "model": "",
        }
        self._with_usage = with_usage
        self._usage: dict[str, Any] = {}
        self._blocks: dict[Any, dict[str, Any]] = {}
        self._calls: dict[Any, int] = {}
        self._without_arguments: set[Any] = set()
        self._delta: dict[str, Any] = {}
        self._over = False

    def add(self, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Take an event; return the chunks to send."""
        kind = event.get("type")
        if kind == "message_start":
            message = mapping(event.get("message"))
            self._head.update(id=message.get("id"), model=message.get("model"))
            self._count(message)
            return [self._chunk({"role": "assistant", "content": ""})]
        if kind == "content_block_start":
            return self._start(event.get("index"), mapping(event.get("content_block")))
        if kind == "content_block_delta":
            return self._more(event.get("index"), mapping(event.get("delta")))
        if kind == "content_block_stop":
            return self._end_of_block(event.get("index"))
        if kind == "message_delta":
            self._count(event)
            self._delta = mapping(event.get("delta"))
        elif kind == "message_stop":
            return self._stop()
        elif kind == "error":
            self._over = True
            return [chat_error(event, 0)]
        return []

    def end(self) -> list[dict[str, Any]]:
        """The upstream has sent everything: an error unless the message has stopped."""
        if self._over:
            return []
        self._over = True
        return [chat_error({"error": {"type": "api_error", "message": ENDED_EARLY}}, 0)]

    def _start(self, index: Any, block: dict[str, Any]) -> list[dict[str, Any]]:
        self._blocks[index] = dict(block)
        if block.get("type") == "text" and block.get("text"):
            return [self._chunk({"content": block["text"]})]
        if block.get("type") == "thinking" and block.get("thinking"):
            return [self._chunk({"reasoning_content": block["thinking"]})]
        if block.get("type") != "tool_use":
            return []
        self._calls[index] = len(self._calls)
        arguments = json_text(block["input"]) if block.get("input") else ""
        if not arguments:
            self._without_arguments.add(index)
        function = {"name": block.get("name"), "arguments": arguments}
        call = {"id": block.get("id"), "type": "function", "function": function}
        return [self._call(index, call)]

    def _more(self, index: Any, delta: dict[str, Any]) -> list[dict[str, Any]]:
        kind = delta.get("type")
        block = self._blocks.get(index, {})
        if kind == "text_delta":
            return [self._chunk({"content": delta.get("text")})]
        if kind == "input_json_delta" and index in self._calls and delta.get("partial_json"):
            self._without_arguments.discard(index)
            return [self._call(index, {"function": {"arguments": delta.get("partial_json")}})]
        if kind == "thinking_delta":
            block["thinking"] = str(block.get("thinking") or "") + str(delta.get("thinking") or "")
            return [self._chunk({"reasoning_content": delta.get("thinking")})]
        if kind == "signature_delta":
            block["signature"] = str(block.get("signature") or "") + str(delta.get("signature"))
        return []

    def _end_of_block(self, index: Any) -> list[dict[str, Any]]:
        block = self._blocks.pop(index, {})
        if block.get("type") in _THOUGHTS:
            return [self._chunk({"thinking_blocks": [block]})]
        if index in self._without_arguments:  # OpenAI's clients read them as JSON all the same
            return [self._call(index, {"function": {"arguments": "{}"}})]
        return []

    def _stop(self) -> list[dict[str, Any]]:
        self._over = True
        reason = FINISH_REASONS.get(str(self._delta.get("stop_reason")), "stop")
        refusal = _refusal(self._delta)
        last = self._chunk({"refusal": refusal} if refusal else {}, reason)
        if not self._usage:
            return [last]
        usage = chat_usage(self._usage)
        if not self._with_usage:
            return [{**last, "usage": usage}]
        return [last, {**self._head, "choices": [], "usage": usage}]

    def _count(self, event: Mapping[str, Any]) -> None:
        usage = mapping(event.get("usage"))
        self._usage.update({key: value for key, value in usage.items() if value is not None})

    def _call(self, index: Any, call: dict[str, Any]) -> dict[str, Any]:
        return self._chunk({"tool_calls": [{"index": self._calls[index], **call}]})

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        chunk = {**self._head, "choices": [choice]}
        return {**chunk, "usage": None} if self._with_usage else chunk
