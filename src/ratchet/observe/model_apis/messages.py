"""Dialect of Anthropic's messages: /messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.observe.model_apis import parts
from ratchet.observe.model_apis.bounded_json import (
    MAX_ITEMS,
    GrowingText,
    bounded_value,
    count,
    items,
    json_text,
    mapping,
    name,
    size_of,
)
from ratchet.observe.model_apis.engine_tokens import no_tokens as choice_tokens
from ratchet.observe.model_apis.engine_tokens import without_tokens as training_request
from ratchet.observe.model_apis.request_texts import (
    PromptTexts,
    texts_of,
    texts_of_messages,
    with_texts,
)
from ratchet.observe.model_apis.settings import settings
from ratchet.observe.model_apis.usage import usage_of_messages

__all__ = [
    "OPERATION",
    "assembly",
    "choice_tokens",
    "prompt_texts",
    "request_attributes",
    "response_attributes",
    "training_request",
    "with_texts",
]

OPERATION = "chat"

_TEXTS = ("text",)
_FIELDS = {
    "compaction": ("content",),
    "container_upload": ("file_id",),
    "search_result": ("source", "title", "content"),
    "tool_reference": ("tool_name",),
}
"""Recorded fields of blocks, by type."""
_MODALITIES = {"image": "image", "document": "document", "video": "video", "audio": "audio"}


def request_attributes(request: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a request."""
    attributes = settings(request)
    level = name(mapping(request.get("output_config")).get("effort"))
    if level:
        attributes["gen_ai.request.reasoning.level"] = level
    system = request.get("system")
    if system:
        attributes["gen_ai.system_instructions"] = json_text(_content(system))
    messages = request.get("messages")
    if isinstance(messages, list):
        attributes["gen_ai.input.messages"] = parts.messages_text(messages, _message)
    tools = items(request.get("tools"))
    if tools:
        attributes["gen_ai.tool.definitions"] = json_text([parts.tool_definition(t) for t in tools])
    return attributes


def response_attributes(response: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a response."""
    attributes: dict[str, Any] = {}
    for key, attribute in (("id", "gen_ai.response.id"), ("model", "gen_ai.response.model")):
        if value := name(response.get(key)):
            attributes[attribute] = value
    reason = name(response.get("stop_reason"))
    if reason:
        attributes["gen_ai.response.finish_reasons"] = [reason]
    if isinstance(response.get("content"), list):
        message: dict[str, Any] = {
            "role": name(response.get("role")) or "assistant",
            "parts": _content(response["content"]),
        }
        if reason:
            message["finish_reason"] = reason
        attributes["gen_ai.output.messages"] = json_text([message])
    attributes.update(usage_of_messages(mapping(response.get("usage"))))
    return attributes


def prompt_texts(request: Mapping[str, Any]) -> PromptTexts:
    """Texts of the system prompt and of the first user message, with their paths."""
    texts = texts_of_messages(request.get("messages"), "messages", _TEXTS)
    system = texts_of(request.get("system"), ("system",), _TEXTS)
    return PromptTexts(system + texts.system, texts.user)


def assembly() -> MessagesAssembly:
    """A new assembly for a streamed response."""
    return MessagesAssembly()


class MessagesAssembly:
    """Merges the events of a streamed response."""

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: list[_Block] = []
        self._at: dict[int, _Block] = {}
        """The newest block at each index."""

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event."""
        kind = event.get("type")
        if kind == "message_start":
            message = mapping(event.get("message"))
            for key in ("id", "model", "role", "stop_reason"):
                self._response[key] = message.get(key)
            self._usage.update(mapping(message.get("usage")))
        elif kind == "content_block_start":
            block = self._begin(event)
            if block is not None:
                block.begin(mapping(event.get("content_block")))
        elif kind == "content_block_delta":
            block = self._newest(event) or self._begin(event)
            if block is not None:
                block.add(mapping(event.get("delta")))
        elif kind == "message_delta":
            if reason := mapping(event.get("delta")).get("stop_reason"):
                self._response["stop_reason"] = reason
            # Counts are cumulative: the last one of each kind is valid.
            reported = mapping(event.get("usage"))
            self._usage.update((k, v) for k, v in reported.items() if v is not None)
        elif kind == "error":
            self._response["error"] = event.get("error")

    def _newest(self, event: Mapping[str, Any]) -> _Block | None:
        """The block that a delta continues: the one at its index, or else the newest."""
        index = count(event.get("index"))
        if index is not None:
            return self._at.get(index)
        return self._blocks[-1] if self._blocks else None

    def _begin(self, event: Mapping[str, Any]) -> _Block | None:
        """A new block, even at an index that another block had."""
        if len(self._blocks) >= MAX_ITEMS:
            return None
        index = count(event.get("index"))
        block = _Block(self._blocks[-1].place if self._blocks and index is None else index or 0)
        self._blocks.append(block)
        if index is not None:
            self._at[index] = block
        return block

    @property
    def begun(self) -> bool:
        """Whether the model has begun to answer."""
        return bool(self._blocks) or "id" in self._response

    @property
    def complete(self) -> bool:
        """Whether the model has said why it stopped."""
        return bool(self._response.get("stop_reason"))

    def response(self) -> dict[str, Any]:
        """The response so far."""
        response = dict(self._response)
        if self._blocks:
            blocks = sorted(self._blocks, key=lambda block: block.place)
            response["content"] = [block.whole() for block in blocks]
        if self._usage:
            response["usage"] = self._usage
        return response


_TYPE_OF_DELTA = {"text": "text", "thinking": "thinking", "partial_json": "tool_use"}
"""Type of a block whose start event is missing, by the field that grows."""


class _Block:
    """A content block of a streamed response.

    Args:
        place: Its index among the blocks of the message.
    """

    def __init__(self, place: int) -> None:
        self.place = place
        self.start: dict[str, Any] = {}
        self.grown: dict[str, GrowingText] = {}
        self.citations: list[Any] = []

    def begin(self, block: dict[str, Any]) -> None:
        self.start = block
        for key in ("text", "thinking", "content"):
            if isinstance(block.get(key), str):
                self.grown[key] = GrowingText()
                self.grown[key].add(block[key])
        self.citations = list(items(block.get("citations")))

    def add(self, delta: dict[str, Any]) -> None:
        # Each type of delta has one field, of the name of the block's field that grows.
        for key, value in delta.items():
            if key == "citation":
                if len(self.citations) < MAX_ITEMS:
                    self.citations.append(value)
            elif key != "type" and isinstance(value, str):
                growing = self.grown.get(key)
                if growing is None:
                    if len(self.grown) >= MAX_ITEMS:
                        continue
                    growing = self.grown[key] = GrowingText()
                growing.add(value)

    def whole(self) -> dict[str, Any]:
        block = dict(self.start)
        for key, growing in self.grown.items():
            if growing:
                block["input" if key == "partial_json" else key] = growing.text()
                if key in _TYPE_OF_DELTA:
                    block.setdefault("type", _TYPE_OF_DELTA[key])
        if self.citations:
            block["citations"] = self.citations
        return block


def _message(message: Any) -> dict[str, Any]:
    message = mapping(message)
    role = name(message.get("role")) or "unknown"
    return {"role": role, "parts": _content(message.get("content"))}


def _content(content: Any) -> list[parts.Part]:
    if isinstance(content, str):
        return [parts.text(content)]
    return [_part(mapping(part)) for part in items(content)]


def _part(block: dict[str, Any]) -> parts.Part:
    kind = name(block.get("type"))
    if kind == "text":
        return parts.text(block.get("text"), block.get("citations"))
    if kind == "thinking":
        return parts.reasoning(block.get("thinking"))
    if kind == "tool_use":
        return parts.tool_call(block.get("id"), block.get("name"), block.get("input"))
    if kind == "tool_result":
        own = _content(block.get("content"))
        response = own[0]["content"] if len(own) == 1 and own[0]["type"] == "text" else own
        part = parts.tool_response(block.get("tool_use_id"), response)
        if block.get("is_error") is True:
            part["is_error"] = True
        return part
    if kind in _MODALITIES:
        return _media(_MODALITIES[kind], mapping(block.get("source")))
    if kind == "redacted_thinking":
        return parts.other(kind, size=size_of(block.get("data")))
    if kind in ("server_tool_use", "mcp_tool_use"):
        tool = name(block.get("name"))
        call = {"type": tool, "input": parts.arguments_of_call(block.get("input"))}
        if server := name(block.get("server_name")):
            call["server_name"] = server
        return parts.server_tool_call(block.get("id"), tool, call)
    if kind.endswith("_tool_result"):
        result = {"type": kind, "content": bounded_value(block.get("content"))}
        if block.get("is_error") is True:
            result["is_error"] = True
        return parts.other(
            "server_tool_call_response",
            id=name(block.get("tool_use_id")),
            server_tool_call_response=result,
        )
    return parts.plain(block, _FIELDS)


def _media(modality: str, source: dict[str, Any]) -> parts.Part:
    kind = source.get("type")
    if kind == "url":
        return parts.media(modality, source.get("url"))
    if kind == "file":
        return parts.file(modality, source.get("file_id"))
    if kind == "text":
        return parts.text(source.get("data"))
    return parts.blob(modality, source.get("media_type"), size_of(source.get("data")))
