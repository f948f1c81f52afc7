"""Small simulators of Anthropic's and OpenAI's APIs, which check requests by the official types.

They say what a test gives them, whole or streamed as the provider's documentation describes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anthropic.types import Message, RawMessageStreamEvent, message_create_params
from openai.types.chat import ChatCompletion, ChatCompletionChunk, completion_create_params
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.server.gateway.upstreams import (
    Seen,
    StubUpstream,
    Wire,
    chunk,
    event,
    reply,
    stream_head,
)

_MESSAGES = {
    True: TypeAdapter[Any](message_create_params.MessageCreateParamsStreaming),
    False: TypeAdapter[Any](message_create_params.MessageCreateParamsNonStreaming),
}
_COMPLETIONS = {
    True: TypeAdapter[Any](completion_create_params.CompletionCreateParamsStreaming),
    False: TypeAdapter[Any](completion_create_params.CompletionCreateParamsNonStreaming),
}

_EARLIER = ("temperature", "top_p")
"""Fields of Anthropic's API before its version 2026-10-21, which its library has no types of."""


def check_messages(request: Mapping[str, Any]) -> None:
    """Fail unless Anthropic's library has a type for all of a request."""
    known = {key: value for key, value in request.items() if key not in _EARLIER}
    _check(_MESSAGES[request.get("stream") is True], known)


def check_completions(request: Mapping[str, Any]) -> None:
    """Fail unless OpenAI's library has a type for all of a request."""
    _check(_COMPLETIONS[request.get("stream") is True], dict(request))


def check_answer(path: str, answer: Any, streamed: bool) -> None:
    """Fail unless the official library of the client has a type for an answer, or an event."""
    _ANSWERS[path, streamed].validate_python(answer)


_ANSWERS: dict[tuple[str, bool], TypeAdapter[Any]] = {
    ("chat/completions", False): TypeAdapter(ChatCompletion),
    ("chat/completions", True): TypeAdapter(ChatCompletionChunk),
    ("responses", False): TypeAdapter(Response),
    ("responses", True): TypeAdapter(ResponseStreamEvent),
    ("messages", False): TypeAdapter(Message),
    ("messages", True): TypeAdapter(RawMessageStreamEvent),
}


def _check(adapter: TypeAdapter[Any], request: dict[str, Any]) -> None:
    # What a type does not know, validation leaves out.
    assert _plain(adapter.validate_python(request)) == request


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [_plain(inner) for inner in value]
    return value


@dataclass
class Provider:
    """A provider that says what it is told.

    Args:
        stub: Its server.
        answers: What to answer, in turn: a whole answer, or an error with its status.
    """

    stub: StubUpstream
    answers: list[Any]
    requests: list[dict[str, Any]] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    """Maximum number of output tokens of the models that it describes."""
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stub.script = self._serve

    def check(self, request: dict[str, Any]) -> None:
        """Check a request by the official types."""
        raise NotImplementedError

    def streamed(self, answer: dict[str, Any]) -> list[bytes]:
        """An answer as events."""
        raise NotImplementedError

    def _serve(self, seen: Seen, wire: Wire) -> None:
        if seen.method == "GET":
            limit = self.limits.get(seen.target.rpartition("/")[2])
            found = {"type": "model", "max_tokens": limit}
            wire.send(reply(found) if limit else reply({}, 404))
            return
        request = seen.json
        try:
            self.check(request)
        except (AssertionError, ValueError) as error:
            self.faults.append(str(error))
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, tuple):
            status, body, headers = answer
            wire.send(reply(body, status, **headers))
        elif request.get("stream"):
            wire.send(stream_head())
            for piece in self.streamed(answer):
                wire.send(chunk(piece))
            wire.send(chunk(b""))
        else:
            wire.send(reply(answer))


class Anthropic(Provider):
    """Anthropic's messages."""

    def check(self, request: dict[str, Any]) -> None:
        check_messages(request)

    def streamed(self, answer: dict[str, Any]) -> list[bytes]:
        return [event(told, str(told["type"])) for told in message_events(answer)]


class OpenAI(Provider):
    """OpenAI's chat completions."""

    def check(self, request: dict[str, Any]) -> None:
        check_completions(request)

    def streamed(self, answer: dict[str, Any]) -> list[bytes]:
        return [event(told) for told in completion_chunks(answer)] + [b"data: [DONE]\n\n"]


def message(*content: dict[str, Any], stop_reason: str = "end_turn", **more: Any) -> dict[str, Any]:
    """An answer of Anthropic's."""
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 3,
            "cache_read_input_tokens": 2,
            "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": 1},
        },
        **more,
    }


def completion(
    content: str | None, *calls: dict[str, Any], reason: str = "stop", **said: Any
) -> dict[str, Any]:
    """An answer of OpenAI's."""
    spoken = {"role": "assistant", "content": content, "refusal": None, **said}
    if calls:
        spoken["tool_calls"] = list(calls)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [{"index": 0, "message": spoken, "logprobs": None, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": 15,
            "completion_tokens": 5,
            "total_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
    }


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """A call of a tool in a chat completion."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def text(said: str) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": said}


def use(call_id: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """A block that uses a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def pieces(said: str, size: int = 4) -> list[str]:
    """A text in pieces."""
    return [said[at : at + size] for at in range(0, len(said), size)]


def message_events(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The events in which Anthropic streams an answer."""
    usage = answer["usage"]
    begun = {**answer, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, block in enumerate(answer["content"]):
        kind = block["type"]
        deltas: list[dict[str, Any]] = []
        empty = dict(block)
        if kind == "text":
            empty["text"] = ""
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        elif kind == "tool_use":
            empty["input"] = {}
            deltas = [{"type": "input_json_delta", "partial_json": ""}]
            if block["input"]:
                told = json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))
                deltas += [
                    {"type": "input_json_delta", "partial_json": piece} for piece in pieces(told)
                ]
        elif kind == "thinking":
            empty.update(thinking="", signature="")
            deltas = [
                {"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    stopped = {key: answer.get(key) for key in ("stop_reason", "stop_sequence", "stop_details")}
    counted = {
        key: usage[key] for key in ("output_tokens", "output_tokens_details") if key in usage
    }
    events.append({"type": "message_delta", "delta": stopped, "usage": counted})
    return [*events, {"type": "message_stop"}]


def completion_chunks(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The chunks in which OpenAI streams an answer whose usage was asked for."""
    choice = answer["choices"][0]
    said = choice["message"]
    head = {key: answer[key] for key in ("id", "created", "model")}
    head.update(object="chat.completion.chunk", usage=None)

    def told(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        of_choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {**head, "choices": [of_choice]}

    chunks = [told({"role": "assistant", "content": "", "refusal": None})]
    for key in ("reasoning_content", "content", "refusal"):
        chunks += [told({key: piece}) for piece in pieces(said.get(key) or "")]
    for index, called in enumerate(said.get("tool_calls", ())):
        function = called["function"]
        begun = {**called, "function": {"name": function["name"], "arguments": ""}}
        chunks.append(told({"tool_calls": [{"index": index, **begun}]}))
        for piece in pieces(function["arguments"]):
            more = {"index": index, "function": {"arguments": piece}}
            chunks.append(told({"tool_calls": [more]}))
    chunks.append(told({}, choice["finish_reason"]))
    return [*chunks, {**head, "choices": [], "usage": answer["usage"]}]
