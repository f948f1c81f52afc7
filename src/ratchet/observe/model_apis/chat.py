"""Dialect of OpenAI's chat completions: /chat/completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.observe.model_apis import parts
from ratchet.observe.model_apis.bounded_json import (
    MAX_ITEMS,
    MAX_TOKENS,
    GrowingText,
    bounded_text,
    count,
    items,
    json_text,
    mapping,
    name,
    numbers,
)
from ratchet.observe.model_apis.engine_tokens import ChoiceTokens, for_training
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
_LEADING = ("system", "developer")


def request_attributes(request: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a request."""
    found = settings(request)
    level = name(request.get("reasoning_effort"))
    if level:
        found["gen_ai.request.reasoning.level"] = level
    form = name(mapping(request.get("response_format")).get("type"))
    if form:
        found["gen_ai.output.type"] = "text" if form == "text" else "json"
    messages = request.get("messages")
    if isinstance(messages, list):
        found["gen_ai.input.messages"] = parts.messages_text(messages, _message)
    tools = items(request.get("tools")) or items(request.get("functions"))
    if tools:
        found["gen_ai.tool.definitions"] = json_text([parts.tool_definition(t) for t in tools])
    return found


def response_attributes(response: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a response."""
    found: dict[str, Any] = {}
    for key, attribute in (("id", "gen_ai.response.id"), ("model", "gen_ai.response.model")):
        if value := name(response.get(key)):
            found[attribute] = value
    choices = [mapping(one) for one in items(response.get("choices"))]
    if choices:
        found["gen_ai.output.messages"] = json_text([_answer(one) for one in choices])
        reasons = [name(one.get("finish_reason")) for one in choices]
        if any(reasons):
            found["gen_ai.response.finish_reasons"] = reasons
    reported = mapping(response.get("usage"))
    of_input = mapping(reported.get("prompt_tokens_details"))
    of_output = mapping(reported.get("completion_tokens_details"))
    found.update(
        usage(
            input_tokens=reported.get("prompt_tokens"),
            output_tokens=reported.get("completion_tokens"),
            cache_read=of_input.get("cached_tokens"),
            cache_write=of_input.get("cache_write_tokens"),
            reasoning=of_output.get("reasoning_tokens"),
        )
    )
    if tier := name(response.get("service_tier")):
        found["openai.response.service_tier"] = tier
    return found


def training_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request for tokens, sampled from the model's own distribution."""
    return for_training(request, True)


def choice_tokens(response: Mapping[str, Any]) -> list[ChoiceTokens]:
    """Tokens of each choice."""
    prompt = numbers(response.get("prompt_token_ids"), int)
    found = []
    for choice in items(response.get("choices")):
        choice = mapping(choice)
        content = mapping(choice.get("logprobs")).get("content")
        logprobs = (
            [mapping(token).get("logprob") for token in content]
            if isinstance(content, list)
            else None
        )
        found.append(
            ChoiceTokens(
                prompt,
                numbers(choice.get("token_ids"), int),
                numbers(logprobs, float),
                name(choice.get("finish_reason")),
            )
        )
    return found


def system_texts(request: Mapping[str, Any]) -> list[tuple[Path, str]]:
    """Texts of system and developer messages, with their paths."""
    messages = request.get("messages")
    if not isinstance(messages, list):
        return []
    found: list[tuple[Path, str]] = []
    for position, message in enumerate(messages):
        if isinstance(message, dict) and message.get("role") in _LEADING:
            path = ("messages", position, "content")
            found.extend(texts_of(message.get("content"), path, _TEXTS))
    return found


_OF_RESPONSE = (*("id", "model", "usage", "service_tier", "prompt_token_ids", "ratchet", "error"),)


def assembly() -> ChatAssembly:
    """A new assembly for a streamed response."""
    return ChatAssembly()


class ChatAssembly:
    """Merges the chunks of a streamed response."""

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Add a chunk."""
        for key in _OF_RESPONSE:
            value = event.get(key)
            if value is not None:
                self._response[key] = value
        for each in items(event.get("choices")):
            each = mapping(each)
            index = count(each.get("index")) or 0
            choice = self._choices.get(index)
            if choice is None:
                if len(self._choices) >= MAX_ITEMS:
                    continue
                choice = self._choices[index] = _Choice()
            choice.add(each)

    def response(self) -> dict[str, Any]:
        """The response so far."""
        choices = [self._choices[index].whole() for index in sorted(self._choices)]
        return {**self._response, "choices": choices} if choices else dict(self._response)


class _Choice:
    """One choice of a streamed response."""

    def __init__(self) -> None:
        self.words = {key: GrowingText() for key in ("content", "refusal", *_REASONING_KEYS)}
        self.calls: dict[int, _Call] = {}
        self.finish_reason = ""
        self.token_ids: list[Any] | None = None
        self.logprobs: list[Any] | None = None

    def add(self, choice: dict[str, Any]) -> None:
        delta = mapping(choice.get("delta"))
        for key, growing in self.words.items():
            if key in delta:
                growing.add(delta[key])
        for each in items(delta.get("tool_calls")):
            each = mapping(each)
            index = count(each.get("index")) or 0
            call = self.calls.get(index)
            if call is None:
                if len(self.calls) >= MAX_ITEMS:
                    continue
                call = self.calls[index] = _Call()
            call.add(each)
        if delta.get("function_call"):
            self.calls.setdefault(0, _Call()).add({"function": delta["function_call"]})
        self.finish_reason = name(choice.get("finish_reason")) or self.finish_reason
        self.token_ids = _extended(self.token_ids, choice.get("token_ids"))
        content = mapping(choice.get("logprobs")).get("content")
        self.logprobs = _extended(self.logprobs, content, key="logprob")

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant"}
        message.update((key, growing.text()) for key, growing in self.words.items() if growing)
        if self.calls:
            message["tool_calls"] = [self.calls[index].whole() for index in sorted(self.calls)]
        choice: dict[str, Any] = {"message": message, "finish_reason": self.finish_reason}
        if self.token_ids is not None:
            choice["token_ids"] = self.token_ids
        if self.logprobs is not None:
            choice["logprobs"] = {"content": self.logprobs}
        return choice


class _Call:
    """One tool call of a streamed response."""

    def __init__(self) -> None:
        self.id = ""
        self.name = GrowingText()
        self.arguments = GrowingText()

    def add(self, call: dict[str, Any]) -> None:
        self.id = name(call.get("id")) or self.id
        # A custom tool's call has its input as text.
        own = mapping(call.get("function")) or mapping(call.get("custom"))
        self.name.add(own.get("name"))
        self.arguments.add(own.get("arguments") or own.get("input"))

    def whole(self) -> dict[str, Any]:
        own = {"name": self.name.text(), "arguments": self.arguments.text()}
        return {"id": self.id, "function": own}


# reasoning_content: DeepSeek and vLLM; reasoning: newer versions of them, and OpenRouter.
_REASONING_KEYS = ("reasoning_content", "reasoning")


def _extended(collected: list[Any] | None, more: Any, key: str = "") -> list[Any] | None:
    if not isinstance(more, list):
        return collected
    collected = [] if collected is None else collected
    # The list may exceed the limit once, which marks it as too long.
    if len(collected) <= MAX_TOKENS:
        collected.extend({key: mapping(one).get(key)} if key else one for one in more)
    return collected


def _message(message: Any) -> dict[str, Any]:
    message = mapping(message)
    role = name(message.get("role")) or "unknown"
    shown: dict[str, Any] = {"role": role, "parts": _parts(message, role)}
    if speaker := name(message.get("name")):
        shown["name"] = speaker
    return shown


def _answer(choice: dict[str, Any]) -> dict[str, Any]:
    message = mapping(choice.get("message"))
    role = name(message.get("role")) or "assistant"
    shown: dict[str, Any] = {"role": role, "parts": _parts(message, role)}
    if reason := name(choice.get("finish_reason")):
        shown["finish_reason"] = reason
    return shown


def _parts(message: dict[str, Any], role: str) -> list[parts.Part]:
    content = message.get("content")
    if len(message) == 2 and isinstance(content, str) and role != "tool":  # the common case
        return [{"type": "text", "content": bounded_text(content)}]
    if role in ("tool", "function"):
        own = _content(content)
        # Nearly always a single text.
        response = own[0]["content"] if len(own) == 1 and own[0]["type"] == "text" else own
        return [parts.tool_response(message.get("tool_call_id"), response)]
    shown = [
        parts.reasoning(message[key])
        for key in _REASONING_KEYS
        if isinstance(message.get(key), str)
    ][:1]
    shown.extend(_content(content))
    if isinstance(message.get("refusal"), str):
        shown.append(parts.other("refusal", content=bounded_text(message["refusal"])))
    for call in items(message.get("tool_calls")):
        call = mapping(call)
        own_call = mapping(call.get("function")) or mapping(call.get("custom"))
        arguments = own_call.get("arguments", own_call.get("input"))
        shown.append(parts.tool_call(call.get("id"), own_call.get("name"), arguments))
    if old := mapping(message.get("function_call")):
        shown.append(parts.tool_call("", old.get("name"), old.get("arguments")))
    audio = mapping(message.get("audio"))
    if audio:
        data = audio.get("data")
        shown.append(parts.blob("audio", None, len(data) if isinstance(data, str) else 0))
        if isinstance(audio.get("transcript"), str):
            shown.append(parts.text(audio["transcript"]))
    return shown


def _content(content: Any) -> list[parts.Part]:
    if isinstance(content, str):
        return [{"type": "text", "content": bounded_text(content)}]
    return [_part(mapping(one)) for one in items(content)]


def _part(part: dict[str, Any]) -> parts.Part:
    kind = part.get("type")
    if kind == "text":
        return parts.text(part.get("text"))
    if kind == "refusal":
        return parts.other("refusal", content=bounded_text(part.get("refusal")))
    if kind == "image_url":
        image = part.get("image_url")
        return parts.media("image", image if isinstance(image, str) else mapping(image).get("url"))
    if kind in ("video_url", "audio_url"):  # vLLM
        modality = "video" if kind == "video_url" else "audio"
        return parts.media(modality, mapping(part.get(kind)).get("url"))
    if kind == "input_audio":
        audio = mapping(part.get("input_audio"))
        form, data = name(audio.get("format")), audio.get("data")
        size = len(data) if isinstance(data, str) else 0
        return parts.blob("audio", f"audio/{form}" if form else None, size)
    if kind == "file":
        own = mapping(part.get("file"))
        if isinstance(own.get("file_data"), str):
            return parts.media("document", own["file_data"])
        return parts.file("document", own.get("file_id"))
    return parts.other(kind)
