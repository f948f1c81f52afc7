"""Dialect of Ollama's chat: /api/chat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.observe.model_apis import chat
from ratchet.observe.model_apis.bounded_json import MAX_ITEMS, GrowingText, items, mapping
from ratchet.observe.model_apis.chat import prompt_texts
from ratchet.observe.model_apis.engine_tokens import no_tokens as choice_tokens
from ratchet.observe.model_apis.engine_tokens import without_tokens as training_request
from ratchet.observe.model_apis.request_texts import with_texts

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


def request_attributes(request: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a request."""
    options = mapping(request.get("options"))
    attributes = chat.request_attributes(
        {**options, "max_tokens": options.get("num_predict"), **request, "stream": None}
    )
    if request.get("stream") is not False:  # streamed unless told otherwise
        attributes["gen_ai.request.stream"] = True
    if form := request.get("format"):
        attributes["gen_ai.output.type"] = "json" if form else "text"
    return attributes


def response_attributes(response: Mapping[str, Any]) -> dict[str, Any]:
    """Span attributes of a response."""
    answer = mapping(response.get("message"))
    message = {**answer, "reasoning": answer.get("thinking")}
    choice = {"message": message, "finish_reason": response.get("done_reason")}
    return chat.response_attributes(
        {
            "model": response.get("model"),
            "choices": [choice] if answer else [],
            "usage": {
                "prompt_tokens": response.get("prompt_eval_count"),
                "completion_tokens": response.get("eval_count"),
            },
        }
    )


def assembly() -> OllamaAssembly:
    """A new assembly for a streamed response."""
    return OllamaAssembly()


_GROWING = ("content", "thinking", "response")


class OllamaAssembly:
    """Merges the lines of a streamed chat or generation."""

    def __init__(self) -> None:
        self._last: dict[str, Any] = {}
        self._role = ""
        self._texts = {key: GrowingText() for key in _GROWING}
        self._calls: list[Any] = []

    def add(self, event: Mapping[str, Any]) -> None:
        """Add a line."""
        self._last = dict(event)
        message = mapping(event.get("message"))
        self._role = message.get("role") or self._role
        for key, growing in self._texts.items():
            growing.add(message.get(key) or event.get(key) or "")
        calls = items(message.get("tool_calls"))
        self._calls.extend(calls[: MAX_ITEMS - len(self._calls)])

    @property
    def begun(self) -> bool:
        """Whether the model has begun to answer."""
        return "message" in self._last or "response" in self._last

    @property
    def complete(self) -> bool:
        """Whether the model has ended its answer."""
        return self._last.get("done") is True

    def response(self) -> dict[str, Any]:
        """The response so far."""
        response = dict(self._last)
        texts = {key: growing.text() for key, growing in self._texts.items() if growing}
        if "message" in response:
            response["message"] = {"role": self._role or "assistant", **texts}
            if self._calls:
                response["message"]["tool_calls"] = self._calls
        else:
            response.update(texts)
        return response
