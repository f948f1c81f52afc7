"""Dialect of OpenAI's chat completions: /chat/completions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    size_of,
)
from ratchet.observe.model_apis.engine_tokens import ChoiceTokens, for_training
from ratchet.observe.model_apis.request_texts import PromptTexts, texts_of_messages, with_texts
from ratchet.observe.model_apis.settings import settings
from ratchet.observe.model_apis.streamed_calls import (
    StreamedCall,
    StreamedCalls,
    arguments_of,
    function_of,
)
from ratchet.observe.model_apis.streamed_parts import StreamedParts
from ratchet.observe.model_apis.usage import usage_attributes, usage_of_chunk

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
_FIELDS = {"reference": ("reference_ids",), "document_url": ("document_url", "document_name")}
"""Recorded fields of parts, by type, as Mistral names them."""


def request_attributes(request: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a request."""
    attributes = settings(request)
    level = name(request.get("reasoning_effort"))
    if level:
        attributes["gen_ai.request.reasoning.level"] = level
    form = name(mapping(request.get("response_format")).get("type"))
    if form:
        attributes["gen_ai.output.type"] = "text" if form == "text" else "json"
    messages = request.get("messages")
    if isinstance(messages, list):
        attributes["gen_ai.input.messages"] = parts.messages_text(messages, _message)
    tools = items(request.get("tools")) or items(request.get("functions"))
    if tools:
        attributes["gen_ai.tool.definitions"] = json_text([parts.tool_definition(t) for t in tools])
    return attributes


def response_attributes(response: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a response."""
    attributes: dict[str, Any] = {}
    for key, attribute in (("id", "gen_ai.response.id"), ("model", "gen_ai.response.model")):
        if value := name(response.get(key)):
            attributes[attribute] = value
    choices = [mapping(choice) for choice in items(response.get("choices"))]
    if choices:
        attributes["gen_ai.output.messages"] = json_text([_answer(choice) for choice in choices])
        reasons = [name(choice.get("finish_reason")) for choice in choices]
        if any(reasons):
            attributes["gen_ai.response.finish_reasons"] = reasons
    attributes.update(usage_attributes(usage_of_chunk(response)))
    if tier := name(response.get("service_tier")):
        attributes["openai.response.service_tier"] = tier
    return attributes


def training_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request for tokens, sampled from the model's own distribution."""
    return for_training(request, True)


def choice_tokens(response: Mapping[str, Any]) -> list[ChoiceTokens]:
    """Tokens of each choice."""
    prompt = numbers(response.get("prompt_token_ids"), int)
    per_choice = []
    for choice in items(response.get("choices")):
        choice = mapping(choice)
        content = mapping(choice.get("logprobs")).get("content")
        logprobs = (
            [mapping(token).get("logprob") for token in content]
            if isinstance(content, list)
            else None
        )
        per_choice.append(
            ChoiceTokens(
                prompt,
                numbers(choice.get("token_ids"), int),
                numbers(logprobs, float),
                name(choice.get("finish_reason")),
            )
        )
    return per_choice


def prompt_texts(request: Mapping[str, Any]) -> PromptTexts:
    """Texts of system and developer messages and of the first user message, with their paths."""
    return texts_of_messages(request.get("messages"), "messages", _TEXTS)


_OF_RESPONSE = ("id", "model", "service_tier", "prompt_token_ids", "ratchet", "error")


def assembly() -> ChatAssembly:
    """A new assembly for a streamed response."""
    return ChatAssembly()


class ChatAssembly:
    """Merges the chunks of a streamed response; those of text completions, too.

    Args:
        new_choice: Makes what merges the chunks of a choice; None for that of a chat.
    """

    def __init__(self, new_choice: Callable[[], Any] | None = None) -> None:
        self._new_choice = new_choice or _Choice
        self._response: dict[str, Any] = {}
        self._choices: dict[int, Any] = {}
        self._ended = False

    def add(self, event: Mapping[str, Any]) -> None:
        """Add a chunk."""
        for key in _OF_RESPONSE:
            value = event.get(key)
            if value is not None:
                self._response[key] = value
        if reported := usage_of_chunk(event):
            self._response["usage"] = reported
            self._ended = not event.get("choices")
        for event_choice in items(event.get("choices")):
            event_choice = mapping(event_choice)
            if "usage" in event_choice and (reported := usage_of_chunk(event_choice)):  # Moonshot
                self._response["usage"] = reported
            index = count(event_choice.get("index")) or 0
            choice = self._choices.get(index)
            if choice is None:
                if len(self._choices) >= MAX_ITEMS:
                    continue
                choice = self._choices[index] = self._new_choice()
            choice.add(event_choice)

    @property
    def begun(self) -> bool:
        """Whether the model has begun to answer."""
        return bool(self._choices)

    @property
    def complete(self) -> bool:
        """Whether the model has said why it stopped, or its usage has come after the choices."""
        return self._ended or (
            bool(self._choices) and all(choice.finish_reason for choice in self._choices.values())
        )

    def response(self) -> dict[str, Any]:
        """The response so far."""
        choices = [self._choices[index].whole() for index in sorted(self._choices)]
        return {**self._response, "choices": choices} if choices else dict(self._response)


class _Choice:
    """One choice of a streamed response."""

    def __init__(self) -> None:
        self.role = ""
        self.words = {key: GrowingText() for key in ("refusal", *_REASONING_KEYS)}
        self.parts = {key: StreamedParts() for key in ("content", "reasoning_details")}
        self.audio: dict[str, GrowingText] = {}
        self.lists: dict[str, list[Any]] = {}
        self.calls = StreamedCalls()
        self.function_call: StreamedCall | None = None
        self.finish_reason = ""
        self.token_ids: list[Any] | None = None
        self.logprobs: list[Any] | None = None

    def add(self, choice: dict[str, Any]) -> None:
        for key, value in mapping(choice.get("delta")).items():
            if not value:
                continue
            if key in self.parts:
                self.parts[key].add(value)
            elif key in self.words:
                self.words[key].add(value)
            elif key == "role":
                self.role = name(value) or self.role
            elif key == "tool_calls":
                for call in items(value):
                    self.calls.add(mapping(call))
            elif key == "function_call":
                self.function_call = self.function_call or StreamedCall()
                self.function_call.add({"function": mapping(value)})
            elif key == "audio":
                for field in ("data", "transcript"):
                    if more := mapping(value).get(field):
                        self.audio.setdefault(field, GrowingText()).add(more)
            elif key in ("annotations", "images"):
                collected = self.lists.setdefault(key, [])
                collected.extend(items(value)[: MAX_ITEMS - len(collected)])
        self.finish_reason = name(choice.get("finish_reason")) or self.finish_reason
        if "token_ids" in choice:
            self.token_ids = _extended(self.token_ids, choice["token_ids"])
        if choice.get("logprobs"):
            content = mapping(choice["logprobs"]).get("content")
            self.logprobs = _extended(self.logprobs, content, key="logprob")

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": self.role or "assistant"}
        message.update((key, growing.text()) for key, growing in self.words.items() if growing)
        message.update((key, grown.whole()) for key, grown in self.parts.items() if grown)
        message.update(self.lists)
        if self.audio:
            message["audio"] = {key: growing.text() for key, growing in self.audio.items()}
        if self.calls:
            message["tool_calls"] = self.calls.whole()
        if self.function_call is not None:
            message["function_call"] = self.function_call.function()
        choice: dict[str, Any] = {"message": message, "finish_reason": self.finish_reason}
        if self.token_ids is not None:
            choice["token_ids"] = self.token_ids
        if self.logprobs is not None:
            choice["logprobs"] = {"content": self.logprobs}
        return choice


# reasoning_content: DeepSeek and vLLM; reasoning: newer versions of them, and OpenRouter.
_REASONING_KEYS = ("reasoning_content", "reasoning")


def _extended(collected: list[Any] | None, more: Any, key: str = "") -> list[Any] | None:
    if not isinstance(more, list):
        return collected
    collected = [] if collected is None else collected
    # The list may exceed the limit once, which marks it as too long.
    if len(collected) <= MAX_TOKENS:
        collected.extend({key: mapping(token).get(key)} if key else token for token in more)
    return collected


def _message(message: Any) -> dict[str, Any]:
    message = mapping(message)
    role = name(message.get("role")) or "unknown"
    converted: dict[str, Any] = {"role": role, "parts": _parts(message, role)}
    if speaker := name(message.get("name")):
        converted["name"] = speaker
    return converted


def _answer(choice: dict[str, Any]) -> dict[str, Any]:
    message = mapping(choice.get("message"))
    role = name(message.get("role")) or "assistant"
    converted: dict[str, Any] = {"role": role, "parts": _parts(message, role)}
    if reason := name(choice.get("finish_reason")):
        converted["finish_reason"] = reason
    return converted


def _parts(message: dict[str, Any], role: str) -> list[parts.Part]:
    content = message.get("content")
    if len(message) == 2 and isinstance(content, str) and content and role != "tool":  # common
        return [{"type": "text", "content": bounded_text(content)}]
    if role in ("tool", "function"):
        response = bounded_text(content) if isinstance(content, str) else _response(content)
        return [parts.tool_response(message.get("tool_call_id"), response)]
    converted_parts = _reasoning(message)
    converted_parts.extend(_content(content, message.get("annotations")))
    converted_parts.extend(_part(mapping(image)) for image in items(message.get("images")))
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        converted_parts.append(parts.other("refusal", content=bounded_text(message["refusal"])))
    for call in items(message.get("tool_calls")):
        call = mapping(call)
        function = function_of(call)
        converted_parts.append(
            parts.tool_call(call.get("id"), function.get("name"), arguments_of(function))
        )
    if old := mapping(message.get("function_call")):
        converted_parts.append(parts.tool_call("", old.get("name"), old.get("arguments")))
    audio = mapping(message.get("audio"))
    if audio:
        converted_parts.append(parts.blob("audio", None, size_of(audio.get("data"))))
        if isinstance(audio.get("transcript"), str) and audio["transcript"]:
            converted_parts.append(parts.text(audio["transcript"]))
    return converted_parts


def _response(content: Any) -> Any:
    """A tool's result: nearly always a single text."""
    own = _content(content)
    return own[0]["content"] if len(own) == 1 and own[0]["type"] == "text" else own


def _reasoning(message: dict[str, Any]) -> list[parts.Part]:
    """The reasoning of a message: OpenRouter gives it as a text, in detail, or both."""
    texts = [message[key] for key in _REASONING_KEYS if isinstance(message.get(key), str)]
    thoughts = [parts.reasoning(text) for text in texts if text][:1]
    for detail in items(message.get("reasoning_details")):
        detail = mapping(detail)
        thought = detail.get("text") or detail.get("summary")
        if not thought:
            kind = detail.get("type")
            thoughts.append(parts.other(kind, size=size_of(detail.get("data"))))
        elif not any(texts):
            thoughts.append(parts.reasoning(thought))
    return thoughts


def _content(content: Any, annotations: Any = None) -> list[parts.Part]:
    if isinstance(content, str):
        return [parts.text(content, annotations)] if content else []
    return [_part(mapping(part)) for part in items(content)]


def _part(part: dict[str, Any]) -> parts.Part:
    kind = part.get("type")
    if kind == "text":
        return parts.text(part.get("text"), part.get("annotations"))
    if kind in ("thinking", "reasoning"):  # Mistral, Databricks
        return parts.reasoning(_thought(part.get("thinking") or part.get("summary")))
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
        return parts.blob("audio", f"audio/{form}" if form else None, size_of(data))
    if kind == "file":
        own = mapping(part.get("file"))
        if isinstance(own.get("file_data"), str):
            return parts.media("document", own["file_data"])
        return parts.file("document", own.get("file_id"))
    return parts.plain(part, _FIELDS)


def _thought(thinking: Any) -> Any:
    if not isinstance(thinking, list):
        return thinking
    return "".join(
        text for thought in thinking if isinstance(text := mapping(thought).get("text"), str)
    )
