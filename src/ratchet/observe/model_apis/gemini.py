"""Dialect of Google's Gemini: models/NAME:generateContent, and its stream.

The name of the model stands in the path, so that whoever has a request puts it beside the body as
`model`, and `stream` for the operation that streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ratchet.observe.model_apis import chat
from ratchet.observe.model_apis.bounded_json import (
    MAX_ITEMS,
    GrowingText,
    count,
    either_case,
    encoded,
    items,
    mapping,
    name,
)
from ratchet.observe.model_apis.engine_tokens import no_tokens as choice_tokens
from ratchet.observe.model_apis.engine_tokens import without_tokens as training_request
from ratchet.observe.model_apis.request_texts import PromptTexts, TextPath, with_texts

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

OPERATION = "generate_content"

_SETTINGS = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "maxOutputTokens": "max_tokens",
    "seed": "seed",
    "stopSequences": "stop",
    "candidateCount": "n",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}


def request_attributes(request: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a request."""
    config = mapping(either_case(request, "generationConfig"))
    chat_request: dict[str, Any] = {
        own: either_case(config, theirs) for theirs, own in _SETTINGS.items()
    }
    system = either_case(request, "systemInstruction")
    messages = [{**message, "role": "system"} for message in _messages(system)]
    messages += _messages(request.get("contents"))
    chat_request |= {
        "model": request.get("model"),
        "stream": request.get("stream"),
        "messages": messages,
    }
    if form := name(either_case(config, "responseMimeType")):
        chat_request["response_format"] = {
            "type": "text" if form == "text/plain" else "json_object"
        }
    declared = [
        {"type": "function", "function": declaration}
        for tool in items(request.get("tools"))
        for declaration in items(either_case(mapping(tool), "functionDeclarations"))
    ]
    return chat.request_attributes({**chat_request, "tools": declared})


def response_attributes(response: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a response."""
    choices = []
    for candidate in map(mapping, items(response.get("candidates"))):
        (message,) = _messages(candidate.get("content"))[:1] or [{"content": ""}]
        reason = name(either_case(candidate, "finishReason")).lower()
        choices.append({"message": {**message, "role": "assistant"}, "finish_reason": reason})
    used = mapping(either_case(response, "usageMetadata"))
    thoughts = count(either_case(used, "thoughtsTokenCount")) or 0
    answer_tokens = count(either_case(used, "candidatesTokenCount"))
    usage = {
        "prompt_tokens": either_case(used, "promptTokenCount"),
        "completion_tokens": answer_tokens + thoughts
        if answer_tokens is not None
        else thoughts or None,
        "prompt_tokens_details": {"cached_tokens": either_case(used, "cachedContentTokenCount")},
        "completion_tokens_details": {"reasoning_tokens": thoughts or None},
    }
    return chat.response_attributes(
        {
            "id": either_case(response, "responseId"),
            "model": either_case(response, "modelVersion"),
            "choices": choices,
            "usage": usage if used else None,
        }
    )


def prompt_texts(request: Mapping[str, Any]) -> PromptTexts:
    """Texts of the system instruction and of the first content, with their paths."""
    system = [
        text
        for key in ("systemInstruction", "system_instruction")
        for text in _texts(request.get(key), (key,))
    ]
    contents = request.get("contents")
    if not isinstance(contents, list):
        return PromptTexts(system, list(_texts(contents, ("contents",))))
    first = _texts(contents[0], ("contents", 0)) if contents else ()
    return PromptTexts(system, list(first))


def _texts(content: Any, path: TextPath) -> Iterator[tuple[TextPath, str]]:
    """Texts of a content, which is an object with parts, or a single part."""
    parts = mapping(content).get("parts")
    for position, part in enumerate(parts if isinstance(parts, list) else ()):
        if isinstance(mapping(part).get("text"), str):
            yield (*path, "parts", position, "text"), part["text"]
    if isinstance(mapping(parts).get("text"), str):
        yield (*path, "parts", "text"), mapping(parts)["text"]


def _messages(contents: Any) -> list[dict[str, Any]]:
    """Contents as messages of a chat."""
    messages = []
    for content in contents if isinstance(contents, list) else [contents]:
        parts = mapping(content).get("parts")
        content_parts: list[dict[str, Any]] = []
        calls: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        thoughts: list[str] = []
        for part in map(mapping, items(parts) or [parts]):
            call, result = either_case(part, "functionCall"), either_case(part, "functionResponse")
            data = mapping(either_case(part, "inlineData"))
            if isinstance(part.get("text"), str):
                if part.get("thought") is True:
                    thoughts.append(part["text"])
                else:
                    content_parts.append({"type": "text", "text": part["text"]})
            elif call is not None:
                called = mapping(call)
                function = {"name": called.get("name"), "arguments": called.get("args")}
                calls.append({"id": called.get("id"), "function": function})
            elif result is not None:
                answered = mapping(result)
                text = encoded(mapping(answered.get("response"))).decode()
                results.append(
                    {"role": "tool", "tool_call_id": answered.get("id"), "content": text}
                )
            elif data:
                kind = name(either_case(data, "mimeType")) or "application/octet-stream"
                url = f"data:{kind};base64,{data.get('data')}"
                content_parts.append({"type": "image_url", "image_url": {"url": url}})
        role = {"model": "assistant", "": "user"}.get(name(mapping(content).get("role")), "user")
        if content_parts or calls or thoughts:
            message: dict[str, Any] = {"role": role, "content": content_parts}
            if calls:
                message["tool_calls"] = calls
            if thoughts:
                message["reasoning"] = "".join(thoughts)
            messages.append(message)
        messages += results
    return messages


def assembly() -> GeminiAssembly:
    """A new assembly for a streamed response."""
    return GeminiAssembly()


class GeminiAssembly:
    """Merges the responses of a stream, each of which has the next parts."""

    def __init__(self) -> None:
        self._last: dict[str, Any] = {}
        self._candidates: dict[int, _Candidate] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Add a response."""
        self._last.update(event)
        for candidate in map(mapping, items(event.get("candidates"))):
            index = count(candidate.get("index")) or 0
            if index in self._candidates or len(self._candidates) < MAX_ITEMS:
                self._candidates.setdefault(index, _Candidate()).add(candidate)

    @property
    def begun(self) -> bool:
        """Whether the model has begun to answer."""
        return bool(self._candidates)

    @property
    def complete(self) -> bool:
        """Whether the model has said why it stopped."""
        candidates = self._candidates.values()
        return bool(candidates) and all(candidate.reason for candidate in candidates)

    def response(self) -> dict[str, Any]:
        """The response so far."""
        candidates = [self._candidates[index].whole() for index in sorted(self._candidates)]
        return {**self._last, "candidates": candidates} if candidates else dict(self._last)


class _Candidate:
    """A candidate of a streamed response."""

    def __init__(self) -> None:
        self.reason = ""
        self._texts = {False: GrowingText(), True: GrowingText()}
        """Its text, and its reasoning."""
        self._others: list[Any] = []

    def add(self, candidate: Mapping[str, Any]) -> None:
        """Add the next parts."""
        self.reason = name(either_case(candidate, "finishReason")) or self.reason
        for part in map(mapping, items(mapping(candidate.get("content")).get("parts"))):
            if isinstance(part.get("text"), str):
                self._texts[part.get("thought") is True].add(part["text"])
            elif len(self._others) < MAX_ITEMS:
                self._others.append(part)

    def whole(self) -> dict[str, Any]:
        """The candidate so far."""
        parts = [
            {"text": growing.text(), **({"thought": True} if thought else {})}
            for thought, growing in reversed(self._texts.items())
            if growing
        ]
        content = {"role": "model", "parts": [*parts, *self._others]}
        return {"content": content, "finishReason": self.reason}
