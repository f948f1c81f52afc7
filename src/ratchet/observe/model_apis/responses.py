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
from ratchet.observe.model_apis.usage import WEB_SEARCHES, usage_attributes

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

_TEXTS = ("input_text", "output_text", "text")
_ITEMS = {
    "mcp_list_tools": ("id", "server_label", "tools", "error"),
    "mcp_approval_request": ("id", "server_label", "name", "arguments"),
    "mcp_approval_response": ("approval_request_id", "approve", "reason"),
    "item_reference": ("id",),
    "computer_call_output": ("call_id",),  # its output is a picture
    "local_shell_call_output": ("id", "output"),
    "shell_call_output": ("call_id", "output"),
    "apply_patch_call_output": ("call_id", "output", "status"),
}
"""Recorded fields of items, by type."""
_ENDS = ("response.completed", "response.incomplete", "response.failed")


def request_attributes(request: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a request."""
    attributes = settings(request)
    for attribute, value in (
        ("gen_ai.request.reasoning.level", mapping(request.get("reasoning")).get("effort")),
        ("gen_ai.request.previous_response.id", request.get("previous_response_id")),
        ("gen_ai.conversation.id", _conversation(request.get("conversation"))),
    ):
        if value := name(value):
            attributes[attribute] = value
    form = name(mapping(mapping(request.get("text")).get("format")).get("type"))
    if form:
        attributes["gen_ai.output.type"] = "text" if form == "text" else "json"
    if isinstance(request.get("instructions"), str):
        attributes["gen_ai.system_instructions"] = json_text([parts.text(request["instructions"])])
    request_input = request.get("input")
    if isinstance(request_input, str):
        request_input = [{"role": "user", "content": request_input}]
    if isinstance(request_input, list):
        attributes["gen_ai.input.messages"] = parts.messages_text(request_input, _message)
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
    reason = name(mapping(response.get("incomplete_details")).get("reason"))
    reason = reason or name(response.get("status"))
    if reason:
        attributes["gen_ai.response.finish_reasons"] = [reason]
    output = items(response.get("output"))
    if output:
        # One response of the model, in several items.
        output_parts = [
            part for output_item in output for part in _message(output_item, "assistant")["parts"]
        ]
        message: dict[str, Any] = {"role": "assistant", "parts": output_parts}
        if reason:
            message["finish_reason"] = reason
        attributes["gen_ai.output.messages"] = json_text([message])
    counts = usage_attributes(mapping(response.get("usage")))
    if counts and (searches := sum(_is_web_search(mapping(item)) for item in output)):
        counts.setdefault(WEB_SEARCHES, searches)
    attributes.update(counts)
    if tier := name(response.get("service_tier")):
        attributes["openai.response.service_tier"] = tier
    return attributes


def prompt_texts(request: Mapping[str, Any]) -> PromptTexts:
    """The instructions, and the texts of system and developer messages and of the first user
    message, with their paths."""
    instructions = texts_of(request.get("instructions"), ("instructions",), ())
    content = request.get("input")
    if isinstance(content, str):
        return PromptTexts(instructions, [(("input",), content)])
    texts = texts_of_messages(content, "input", _TEXTS)
    return PromptTexts(instructions + texts.system, texts.user)


def assembly() -> ResponsesAssembly:
    """A new assembly for a streamed response."""
    return ResponsesAssembly()


class ResponsesAssembly:
    """Merges the events of a streamed response.

    The last event has the whole response; earlier ones are used only where it lacks the output.
    """

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._items: list[_Item] = []
        self._by_id: dict[str, _Item] = {}
        self._at: dict[int, _Item] = {}
        """The newest item at each index."""
        self._ended = False

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event."""
        kind = event.get("type")
        if kind in _ENDS:
            self._response = mapping(event.get("response"))
            self._ended = True
            if items(self._response.get("output")):
                self._items.clear()
        elif kind == "error" or event.get("error"):
            self._response = {**self._response, "error": event.get("error") or dict(event)}
        elif self._ended or not isinstance(kind, str):
            return
        elif kind in ("response.created", "response.in_progress", "response.queued"):
            self._response = mapping(event.get("response"))
        elif (item := self._item(kind, event)) is not None:
            item.add(kind, event)

    def _item(self, kind: str, event: Mapping[str, Any]) -> _Item | None:
        """The item that an event is about: by its id, then by its index, then the newest.

        An item that is added under an index that another one has is an item of its own.
        """
        added = kind == "response.output_item.added"
        index = count(event.get("output_index"))
        if index is None and "item_id" not in event and "item" not in event:
            if not kind.startswith("response.audio."):  # which no index comes with
                return None
            added = not self._items
        item_id = name(event.get("item_id")) or name(mapping(event.get("item")).get("id"))
        item = self._by_id.get(item_id) if item_id else None
        if item is None and not added:
            newest = self._items[-1] if self._items else None
            item = newest if index is None else self._at.get(index)
            if item is not None and item.done:
                item = None
        if item is None:
            if len(self._items) >= MAX_ITEMS:
                return None
            place = index if index is not None else self._items[-1].place if self._items else 0
            item = _Item(place)
            self._items.append(item)
        if item_id:
            self._by_id[item_id] = item
        if index is not None:
            self._at[index] = item
        return item

    @property
    def begun(self) -> bool:
        """Whether the model has begun to answer."""
        return bool(self._items or items(self._response.get("output")))

    @property
    def complete(self) -> bool:
        """Whether the last event has come; after a failure it may lack the usage."""
        return self._ended and bool(mapping(self._response.get("usage")))

    def response(self) -> dict[str, Any]:
        """The response so far."""
        if not self._items:
            return self._response
        output = [item.whole() for item in sorted(self._items, key=lambda item: item.place)]
        return {**self._response, "output": output}


_LISTS = {
    "response.output_text": ("content", "output_text", "text"),
    "response.refusal": ("content", "refusal", "refusal"),
    "response.audio.transcript": ("content", "output_audio", "transcript"),
    "response.audio": ("content", "output_audio", "data"),
    "response.reasoning": ("content", "reasoning_text", "text"),  # older names
    "response.reasoning_summary": ("summary", "summary_text", "text"),
    "response.reasoning_text": ("content", "reasoning_text", "text"),
    "response.reasoning_summary_text": ("summary", "summary_text", "text"),
}
"""Events whose text grows in a part of a list: the list, the type of the part, and its field."""

_FIELDS = {
    "response.function_call_arguments": ("function_call", "arguments"),
    "response.mcp_call_arguments": ("mcp_call", "arguments"),
    "response.mcp_call.arguments": ("mcp_call", "arguments"),
    "response.custom_tool_call_input": ("custom_tool_call", "input"),
    "response.code_interpreter_call_code": ("code_interpreter_call", "code"),
    "response.code_interpreter_call.code": ("code_interpreter_call", "code"),
    "response.apply_patch_call_operation_diff": ("apply_patch_call", "diff"),
}
"""Events whose text grows in a field of the item: the type of the item, and the field."""


class _Item:
    """An output item of a streamed response, possibly incomplete.

    Args:
        place: Its index in the output.
    """

    def __init__(self, place: int) -> None:
        self.place = place
        self.item: dict[str, Any] = {}
        self.done = False
        self._fields: dict[str, GrowingText] = {}
        self._parts: dict[tuple[str, int, str], dict[str, Any]] = {}
        """Fields of the parts of each list, by list, index and type."""

    def add(self, kind: str, event: Mapping[str, Any]) -> None:
        if kind in ("response.output_item.added", "response.output_item.done"):
            self.item = mapping(event.get("item"))
            self.done = kind.endswith("done")
            return
        stem, _, step = kind.rpartition(".")
        if stem in _FIELDS and step == "delta":
            own, field = _FIELDS[stem]
            self.item.setdefault("type", own)
            self._fields.setdefault(field, GrowingText()).add(event.get("delta"))
        elif stem in _LISTS and step == "delta":
            place, part, field = _LISTS[stem]
            growing = self._part(place, part, event).setdefault(field, GrowingText())
            growing.add(event.get("delta"))
        elif kind == "response.output_text.annotation.added":
            annotations = self._part("content", "output_text", event).setdefault("annotations", [])
            if len(annotations) < MAX_ITEMS:
                annotations.append(event.get("annotation"))

    def _part(self, place: str, kind: str, event: Mapping[str, Any]) -> dict[str, Any]:
        index = count(event.get("summary_index" if place == "summary" else "content_index")) or 0
        if (place, index, kind) not in self._parts and len(self._parts) >= MAX_ITEMS:
            return {}
        return self._parts.setdefault((place, index, kind), {})

    def whole(self) -> dict[str, Any]:
        if self.done:
            return self.item
        item = dict(self.item)
        for field, growing in self._fields.items():
            item[field] = growing.text()
        lists: dict[str, list[dict[str, Any]]] = {}
        for (place, _, kind), fields in sorted(self._parts.items(), key=lambda entry: entry[0]):
            if place == "summary" or kind == "reasoning_text":
                item.setdefault("type", "reasoning")
            part = {
                field: value.text() if isinstance(value, GrowingText) else value
                for field, value in fields.items()
            }
            lists.setdefault(place, []).append({"type": kind, **part})
        item.update(lists)
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
        reasoning_parts = [
            parts.reasoning(mapping(thought).get("text", "")) for thought in thoughts
        ]
        return {"role": "assistant", "parts": reasoning_parts}
    if kind == "image_generation_call":
        image = parts.blob("image", None, size_of(item.get("result")))
        return {"role": "assistant", "parts": [image]}
    if kind.endswith("_call"):  # a built-in tool of the provider, or a tool of an MCP server
        call = {key: bounded_value(value) for key, value in list(item.items())[:50]}
        if kind == "mcp_call":
            call["arguments"] = parts.arguments_of_call(item.get("arguments"))
        part = parts.server_tool_call(item.get("id"), item.get("name") or kind, call)
        return {"role": "assistant", "parts": [part]}
    return {
        "role": name(item.get("role")) or role,
        "parts": [parts.plain(item, _ITEMS)],
    }


def _is_web_search(item: dict[str, Any]) -> bool:
    """Whether an item is a charged web search; opening a page is not."""
    if item.get("type") != "web_search_call":
        return False
    return mapping(item.get("action")).get("type") in (None, "search")


def _content(content: Any) -> list[parts.Part]:
    if isinstance(content, str):
        return [parts.text(content)]
    return [_part(mapping(part)) for part in items(content)]


def _part(part: dict[str, Any]) -> parts.Part:
    kind = part.get("type")
    if kind in _TEXTS:
        return parts.text(part.get("text"), part.get("annotations"))
    if kind == "output_audio":
        transcript = part.get("transcript")
        spoken = {"transcript": bounded_text(transcript)} if transcript else {}
        return {**parts.blob("audio", None, size_of(part.get("data"))), **spoken}
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
        return parts.blob("audio", None, size_of(mapping(part.get("input_audio")).get("data")))
    return parts.plain(part, {})
