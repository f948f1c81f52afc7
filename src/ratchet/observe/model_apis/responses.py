"""Dialect of OpenAI's responses: /responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.observe.model_apis import parts
from ratchet.observe.model_apis.bounded_json import (
    MAX_ITEMS,
    GrowingText,
    bounded_text,
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

_TEXTS = ("input_text", "output_text", "text")
_LEADING = ("system", "developer")
_ENDS = ("response.completed", "response.incomplete", "response.failed")


def request_attributes(request: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a request."""
    found = settings(request)
    for attribute, value in (
        ("gen_ai.request.reasoning.level", mapping(request.get("reasoning")).get("effort")),
        ("gen_ai.request.previous_response.id", request.get("previous_response_id")),
        ("gen_ai.conversation.id", _conversation(request.get("conversation"))),
    ):
        if value := name(value):
            found[attribute] = value
    form = name(mapping(mapping(request.get("text")).get("format")).get("type"))
    if form:
        found["gen_ai.output.type"] = "text" if form == "text" else "json"
    if isinstance(request.get("instructions"), str):
        found["gen_ai.system_instructions"] = json_text([parts.text(request["instructions"])])
    given = request.get("input")
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if isinstance(given, list):
        found["gen_ai.input.messages"] = parts.messages_text(given, _message)
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
    reason = name(mapping(response.get("incomplete_details")).get("reason"))
    reason = reason or name(response.get("status"))
    if reason:
        found["gen_ai.response.finish_reasons"] = [reason]
    output = items(response.get("output"))
    if output:
        # One response of the model, in several items.
        shown = [part for one in output for part in _message(one, "assistant")["parts"]]
        message: dict[str, Any] = {"role": "assistant", "parts": shown}
        if reason:
            message["finish_reason"] = reason
        found["gen_ai.output.messages"] = json_text([message])
    reported = mapping(response.get("usage"))
    of_input = mapping(reported.get("input_tokens_details"))
    found.update(
        usage(
            input_tokens=reported.get("input_tokens"),
            output_tokens=reported.get("output_tokens"),
            cache_read=of_input.get("cached_tokens"),
            cache_write=of_input.get("cache_write_tokens"),
            reasoning=mapping(reported.get("output_tokens_details")).get("reasoning_tokens"),
        )
    )
    if tier := name(response.get("service_tier")):
        found["openai.response.service_tier"] = tier
    return found


def system_texts(request: Mapping[str, Any]) -> list[tuple[Path, str]]:
    """The instructions, and the texts of system and developer messages, with their paths."""
    found: list[tuple[Path, str]] = []
    if isinstance(request.get("instructions"), str):
        found.append((("instructions",), request["instructions"]))
    given = request.get("input")
    for position, item in enumerate(given if isinstance(given, list) else ()):
        if isinstance(item, dict) and item.get("role") in _LEADING:
            found.extend(texts_of(item.get("content"), ("input", position, "content"), _TEXTS))
    return found


def assembly() -> ResponsesAssembly:
    """A new assembly for a streamed response."""
    return ResponsesAssembly()


class ResponsesAssembly:
    """Merges the events of a streamed response.

    The last event has the whole response; earlier ones are used only when it is missing.
    """

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._output: dict[int, _Item] = {}
        self._ended = False

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event."""
        kind = event.get("type")
        if kind in _ENDS:
            self._response = mapping(event.get("response"))
            self._ended = True
            self._output.clear()
        elif kind == "error" or event.get("error"):
            self._response = {**self._response, "error": event.get("error") or dict(event)}
        elif self._ended or not isinstance(kind, str):
            return
        elif kind in ("response.created", "response.in_progress"):
            self._response = mapping(event.get("response"))
        elif "output_index" in event:
            index = count(event.get("output_index")) or 0
            item = self._output.get(index)
            if item is None:
                if len(self._output) >= MAX_ITEMS:
                    return
                item = self._output[index] = _Item()
            item.add(kind, event)

    def response(self) -> dict[str, Any]:
        """The response so far."""
        if self._ended or not self._output:
            return self._response
        output = [self._output[index].whole() for index in sorted(self._output)]
        return {**self._response, "output": output}


class _Item:
    """One output item of a streamed response, possibly incomplete."""

    def __init__(self) -> None:
        self.item: dict[str, Any] = {}
        self.done = False
        self.grown: dict[str, GrowingText] = {}

    def add(self, kind: str, event: Mapping[str, Any]) -> None:
        if kind in ("response.output_item.added", "response.output_item.done"):
            self.item = mapping(event.get("item"))
            self.done = kind.endswith("done")
        elif kind.endswith(".delta") and (kind in self.grown or len(self.grown) < MAX_ITEMS):
            self.grown.setdefault(kind, GrowingText()).add(event.get("delta"))

    def whole(self) -> dict[str, Any]:
        if self.done:
            return self.item
        item = dict(self.item)
        for kind, growing in self.grown.items():
            if kind == "response.function_call_arguments.delta":
                item.setdefault("type", "function_call")
                item["arguments"] = growing.text()
            elif kind.startswith("response.reasoning"):
                item.setdefault("type", "reasoning")
                item["summary"] = [{"type": "summary_text", "text": growing.text()}]
            elif kind == "response.refusal.delta":
                item["content"] = [{"type": "refusal", "refusal": growing.text()}]
            elif kind == "response.output_text.delta":
                item["content"] = [{"type": "output_text", "text": growing.text()}]
        item.setdefault("type", "message")
        return item


def _conversation(value: Any) -> Any:
    return value.get("id") if isinstance(value, dict) else value


def _message(item: Any, role: str = "user") -> dict[str, Any]:
    """Convert an item of the input or the output to a message."""
    item = mapping(item)
    kind = name(item.get("type")) or "message"
    if kind == "message":
        return {"role": name(item.get("role")) or role, "parts": _content(item.get("content"))}
    if kind in ("function_call", "custom_tool_call"):
        arguments = item.get("arguments", item.get("input"))
        call = parts.tool_call(item.get("call_id"), item.get("name"), arguments)
        return {"role": "assistant", "parts": [call]}
    if kind in ("function_call_output", "custom_tool_call_output"):
        output = item.get("output")
        response = bounded_text(output) if isinstance(output, str) else _content(output)
        return {"role": "tool", "parts": [parts.tool_response(item.get("call_id"), response)]}
    if kind == "reasoning":
        thoughts = [*items(item.get("summary")), *items(item.get("content"))]
        shown = [parts.reasoning(mapping(one).get("text", "")) for one in thoughts]
        return {"role": "assistant", "parts": shown}
    if kind == "image_generation_call":
        result = item.get("result")
        image = parts.blob("image", None, len(result) if isinstance(result, str) else 0)
        return {"role": "assistant", "parts": [image]}
    if kind.endswith("_call"):  # a built-in tool of the provider
        call = {key: bounded_value(value) for key, value in list(item.items())[:50]}
        part = parts.other(
            "server_tool_call", id=name(item.get("id")), name=kind, server_tool_call=call
        )
        return {"role": "assistant", "parts": [part]}
    return {"role": name(item.get("role")) or role, "parts": [parts.other(kind)]}


def _content(content: Any) -> list[parts.Part]:
    if isinstance(content, str):
        return [parts.text(content)]
    return [_part(mapping(one)) for one in items(content)]


def _part(part: dict[str, Any]) -> parts.Part:
    kind = part.get("type")
    if kind in _TEXTS:
        return parts.text(part.get("text"))
    if kind == "refusal":
        return parts.other("refusal", content=bounded_text(part.get("refusal")))
    if kind == "input_image":
        if isinstance(part.get("file_id"), str):
            return parts.file("image", part["file_id"])
        return parts.media("image", part.get("image_url"))
    if kind == "input_file":
        for key in ("file_data", "file_url"):
            if isinstance(part.get(key), str):
                return parts.media("document", part[key])
        return parts.file("document", part.get("file_id"))
    if kind == "input_audio":
        audio = mapping(part.get("input_audio"))
        data = audio.get("data")
        return parts.blob("audio", None, len(data) if isinstance(data, str) else 0)
    return parts.other(kind)
