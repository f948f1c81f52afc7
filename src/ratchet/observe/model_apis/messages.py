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
)
from ratchet.observe.model_apis.engine_tokens import no_tokens as choice_tokens
from ratchet.observe.model_apis.engine_tokens import without_tokens as training_request
from ratchet.observe.model_apis.request_texts import Path, texts_of, with_texts
from ratchet.observe.model_apis.settings import settings, usage

__all__ = [
    "OPERATION",
    "assembly",
    "choice_tokens",
    "request_attributes",
    "response_attributes",
    "system_texts",
    "training_request",
    "with_texts",
]

OPERATION = "chat"

_TEXTS = ("text",)
_MODALITIES = {"image": "image", "document": "document", "video": "video", "audio": "audio"}


def request_attributes(request: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a request."""
    found = settings(request)
    level = name(mapping(request.get("output_config")).get("effort"))
    if level:
        found["gen_ai.request.reasoning.level"] = level
    system = request.get("system")
    if system:
        found["gen_ai.system_instructions"] = json_text(_content(system))
    messages = request.get("messages")
    if isinstance(messages, list):
        found["gen_ai.input.messages"] = parts.messages_text(messages, _message)
    tools = items(request.get("tools"))
    if tools:
        found["gen_ai.tool.definitions"] = json_text([parts.tool_definition(t) for t in tools])
    return found


def response_attributes(response: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a response."""
    found: dict[str, Any] = {}
    for key, attribute in (("id", "gen_ai.response.id"), ("model", "gen_ai.response.model")):
        if value := name(response.get(key)):
            found[attribute] = value
    reason = name(response.get("stop_reason"))
    if reason:
        found["gen_ai.response.finish_reasons"] = [reason]
    if isinstance(response.get("content"), list):
        message: dict[str, Any] = {
            "role": name(response.get("role")) or "assistant",
            "parts": _content(response["content"]),
        }
        if reason:
            message["finish_reason"] = reason
        found["gen_ai.output.messages"] = json_text([message])
    reported = mapping(response.get("usage"))
    fresh = count(reported.get("input_tokens"))
    read = count(reported.get("cache_read_input_tokens"))
    written = count(reported.get("cache_creation_input_tokens"))
    found.update(
        usage(
            # OpenTelemetry's count includes cached tokens; Anthropic's does not.
            input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
            output_tokens=reported.get("output_tokens"),
            cache_read=read,
            cache_write=written,
        )
    )
    return found


def system_texts(request: Mapping[str, Any]) -> list[tuple[Path, str]]:
    """Texts of the system prompt, with their paths."""
    return texts_of(request.get("system"), ("system",), _TEXTS)


def assembly() -> MessagesAssembly:
    """A new assembly for a streamed response."""
    return MessagesAssembly()


class MessagesAssembly:
    """Merges the events of a streamed response."""

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event."""
        kind = event.get("type")
        if kind == "message_start":
            message = mapping(event.get("message"))
            for key in ("id", "model", "role", "stop_reason"):
                self._response[key] = message.get(key)
            self._usage.update(mapping(message.get("usage")))
        elif kind in ("content_block_start", "content_block_delta"):
            index = count(event.get("index")) or 0
            block = self._blocks.get(index)
            if block is None:
                if len(self._blocks) >= MAX_ITEMS:
                    return
                block = self._blocks[index] = _Block()
            if kind == "content_block_start":
                block.begin(mapping(event.get("content_block")))
            else:
                block.add(mapping(event.get("delta")))
        elif kind == "message_delta":
            if reason := mapping(event.get("delta")).get("stop_reason"):
                self._response["stop_reason"] = reason
            # Counts are cumulative: the last one of each kind is valid.
            reported = mapping(event.get("usage"))
            self._usage.update((k, v) for k, v in reported.items() if v is not None)
        elif kind == "error":
            self._response["error"] = event.get("error")

    def response(self) -> dict[str, Any]:
        """The response so far."""
        whole = dict(self._response)
        if self._blocks:
            whole["content"] = [self._blocks[index].whole() for index in sorted(self._blocks)]
        if self._usage:
            whole["usage"] = self._usage
        return whole


class _Block:
    """One content block of a streamed response."""

    def __init__(self) -> None:
        self.start: dict[str, Any] = {}
        self.grown = {key: GrowingText() for key in ("text", "thinking", "partial_json")}

    def begin(self, block: dict[str, Any]) -> None:
        self.start = block
        for key in ("text", "thinking"):
            self.grown[key].add(block.get(key))

    def add(self, delta: dict[str, Any]) -> None:
        for key, growing in self.grown.items():
            if key in delta:
                growing.add(delta[key])

    def whole(self) -> dict[str, Any]:
        block = dict(self.start)
        for key in ("text", "thinking"):
            if self.grown[key]:
                block[key] = self.grown[key].text()
                block.setdefault("type", key)  # the start event is missing
        if self.grown["partial_json"]:
            block["input"] = self.grown["partial_json"].text()
            block.setdefault("type", "tool_use")
        return block


def _message(message: Any) -> dict[str, Any]:
    message = mapping(message)
    role = name(message.get("role")) or "unknown"
    return {"role": role, "parts": _content(message.get("content"))}


def _content(content: Any) -> list[parts.Part]:
    if isinstance(content, str):
        return [parts.text(content)]
    return [_part(mapping(one)) for one in items(content)]


def _part(block: dict[str, Any]) -> parts.Part:
    kind = name(block.get("type"))
    if kind == "text":
        return parts.text(block.get("text"))
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
    if kind == "server_tool_use":
        call = {"type": name(block.get("name")), "input": bounded_value(block.get("input"))}
        return parts.other(
            "server_tool_call",
            id=name(block.get("id")),
            name=name(block.get("name")),
            server_tool_call=call,
        )
    if kind.endswith("_tool_result"):
        result = {"type": kind, "content": bounded_value(block.get("content"))}
        return parts.other(
            "server_tool_call_response",
            id=name(block.get("tool_use_id")),
            server_tool_call_response=result,
        )
    return parts.other(kind)


def _media(modality: str, source: dict[str, Any]) -> parts.Part:
    kind = source.get("type")
    if kind == "url":
        return parts.media(modality, source.get("url"))
    if kind == "file":
        return parts.file(modality, source.get("file_id"))
    if kind == "text":
        return parts.text(source.get("data"))
    data = source.get("data")
    return parts.blob(modality, source.get("media_type"), len(data) if isinstance(data, str) else 0)
